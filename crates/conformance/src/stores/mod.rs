//! The stores under test, each as a [`Fixture`](crate::fixture::Fixture).

mod memory;
mod postgres;
mod sealed;
mod split;
mod sqlite;

pub use memory::Memory;
pub use postgres::Database;
pub use sealed::{Seal, Sealed};
pub use split::Split;
pub use sqlite::File;
