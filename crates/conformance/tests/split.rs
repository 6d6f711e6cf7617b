//! The sentences about transitions, on pairs of stores that are two datastores. Their halves are held to the sentences
//! about halves where they are whole.

use conformance::stores::{Database, File, Memory, Split};

// Not `fused`, `enlist` and `stall`: those are what one datastore promises beyond a pair.
mod memory_and_memory {
    use super::*;
    conformance::conformance_suite!(Split<Memory, Memory>: durable, settles, inspect, repairs);
}

mod sqlite_and_sqlite {
    use super::*;
    conformance::conformance_suite!(Split<File, File>: durable, settles, inspect, repairs);
}

mod postgres_and_sqlite {
    use super::*;
    conformance::conformance_suite!(Split<Database, File>: durable, settles, inspect, repairs);
}

mod sqlite_and_postgres {
    use super::*;
    conformance::conformance_suite!(Split<File, Database>: durable, settles, inspect, repairs);
}
