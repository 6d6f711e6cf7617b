//! The stores under test, each as a [`Fixture`](crate::fixture::Fixture).

mod memory;
mod postgres;
mod split;
mod sqlite;

pub use memory::Memory;
pub use postgres::Database;
pub use split::Split;
pub use sqlite::File;
