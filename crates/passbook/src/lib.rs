//! Passbook.

mod value;
pub use value::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, Undecodable, Value};
