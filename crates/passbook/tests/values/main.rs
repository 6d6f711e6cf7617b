//! What the codec of recorded values promises, through its public interface.

#![expect(clippy::float_cmp, reason = "floats come back exactly")]

mod kinds;
mod round_trips;
mod spelling;
