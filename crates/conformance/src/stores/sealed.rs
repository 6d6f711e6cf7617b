//! A store behind a codec.

use std::fmt::Write as _;

use passbook::{Clock, Codec, Coded, Error, Result, Tx, Value};

use crate::fixture::{EnlistFixture, Fixture};

/// Stands for a cipher: keeps every value as a string that nobody can read, another one each time.
#[derive(Clone, Debug, Default)]
pub struct Seal(std::sync::Arc<std::sync::atomic::AtomicU8>);

const MARK: &str = "\"sealed ";

impl Codec for Seal {
    fn encode(&self, workflow: &str, value: &Value) -> Result<Value> {
        let nonce = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut sealed = format!("sealed {nonce:02x}");
        for byte in value.as_str().bytes() {
            write!(sealed, "{:02x}", byte ^ nonce).map_err(|error| Error::refused(error.to_string()))?;
        }
        Value::encode(&sealed).map_err(|why| Error::refused(format!("a value of workflow `{workflow}`: {why}")))
    }

    fn decode(&self, workflow: &str, stored: Value) -> Result<Value> {
        // What a sentence wrote by hand is as it was before there was a codec.
        let Some(sealed) = stored.as_str().strip_prefix(MARK) else {
            return Ok(stored);
        };
        let broken = || Error::undecodable(format!("a value of workflow `{workflow}` was sealed with another key"));
        let sealed = sealed.trim_end_matches('"').as_bytes();
        let bytes: Option<Vec<u8>> = sealed
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let bytes = bytes.ok_or_else(broken)?;
        let (nonce, bytes) = bytes.split_first().ok_or_else(broken)?;
        let text = String::from_utf8(bytes.iter().map(|byte| byte ^ nonce).collect()).map_err(|_| broken())?;
        Ok(Value::stored(text))
    }
}

/// The store of a fixture behind [`Seal`].
#[allow(missing_debug_implementations, reason = "a store need not be printable")]
pub struct Sealed<F: Fixture> {
    store: Coded<F::Store, Seal>,
    inner: F,
}

impl<F: Fixture> Fixture for Sealed<F> {
    type Store = Coded<F::Store, Seal>;

    async fn open_under(clock: Clock) -> Self {
        let inner = F::open_under(clock).await;
        let store = Coded::new(inner.store().clone(), Seal::default());
        Self { store, inner }
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    async fn second(&self) -> Self::Store {
        Coded::new(self.inner.second().await, Seal::default())
    }

    fn clock(&self) -> &Clock {
        self.inner.clock()
    }

    async fn count(&self, tx: &mut Tx<Self::Store>) {
        self.inner.count(tx).await;
    }

    async fn counted(&self) -> u64 {
        self.inner.counted().await
    }

    async fn write_row(&self, tx: &mut Tx<Self::Store>, workflow: &str, step: &str) {
        self.inner.write_row(tx, workflow, step).await;
    }

    async fn close(self) {
        self.inner.close().await;
    }
}

impl<F: EnlistFixture> EnlistFixture for Sealed<F> {
    type Open = F::Open;

    async fn begin(&self) -> F::Open {
        self.inner.begin().await
    }

    async fn commit(&self, open: F::Open) {
        self.inner.commit(open).await;
    }
}
