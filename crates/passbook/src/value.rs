//! What a step returned, as the text that every store holds.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

mod errors;
mod key;
mod number;
mod place;
mod read;
mod scan;
mod serializer;
mod writer;

pub use errors::{Refused, Undecodable};
use writer::Writer;

/// The most bytes of canonical text that one value may have.
///
/// A value is loaded with every later pass of its workflow, so a large one is paid for many times.
/// The source of the number: `jsonb` takes up to four times the text (a list of small integers), and
/// Postgres refuses a `jsonb` container of 256 MiB. Entries of an object that a later entry of the
/// same key replaces count too.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// The most arrays and objects that may lie inside each other.
///
/// The source of the number: `serde_json` gives up at its 128th level, so that one more could be
/// stored and never decoded.
pub const MAX_DEPTH: usize = 127;

/// A recorded value: JSON in the one spelling that Postgres gives it back in.
///
/// The text is byte for byte what Postgres prints for `value::jsonb::text`, so that a workflow
/// cannot tell which store it got: keys are sorted by length and then by bytes, the last of equal
/// keys wins, exponents are written out, and a negative zero has lost its sign.
///
/// ```
/// use passbook::Value;
///
/// let value = Value::encode(&("order-17", 2.5e-7, Some(u64::MAX))).unwrap();
/// assert_eq!(value.as_str(), r#"["order-17", 0.00000025, 18446744073709551615]"#);
///
/// let (order, price, count): (String, f64, Option<u64>) = value.decode().unwrap();
/// assert_eq!((order.as_str(), price, count), ("order-17", 2.5e-7, Some(u64::MAX)));
/// ```
///
/// Cloning shares the text. Two values are equal when their texts are, so `1.0` is not `1`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(Arc<str>);

impl Value {
    /// Writes whatever serde can write, as `serde_json` represents it.
    ///
    /// Refused, with the place in the value and before anything is stored: a float that is not
    /// finite, a NUL in a string or a key, a map key that JSON cannot write as a string, nesting
    /// beyond [`MAX_DEPTH`], text beyond [`MAX_VALUE_BYTES`], a number that Postgres' `numeric`
    /// cannot hold, and whatever the type's own `Serialize` refuses.
    ///
    /// ```
    /// let refused = passbook::Value::encode(&[1.0, f64::NAN]).unwrap_err();
    /// assert_eq!(refused.place(), "$[1]");
    /// ```
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, Refused> {
        let mut writer = Writer::new();
        let written = value.serialize(&mut writer);
        writer.finish(written).map(Self)
    }

    /// Reads the value into the type asked for.
    ///
    /// Every finite `f64` and `f32` and every integer up to 128 bits comes back as it was (of 64
    /// bits in flattened, untagged and internally tagged types, where serde holds no wider ones). An
    /// error says where the value and the type part; the value itself is untouched.
    ///
    /// ```
    /// let value = passbook::Value::parse(r#"{"items": [{"price": "free"}]}"#).unwrap();
    ///
    /// # #[derive(serde::Deserialize, Debug)] struct Item { price: u32 }
    /// # #[derive(serde::Deserialize, Debug)] struct Order { items: Vec<Item> }
    /// let error = value.decode::<Order>().unwrap_err();
    /// assert_eq!(error.place(), "$.items[0].price");
    /// assert_eq!(error.found(), "a string");
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        // The bare attempt first: following the path costs an allocation for every key.
        serde_json::from_str(&self.0).or_else(|error| {
            let tags_first = scan::strings_first(&self.0);
            tags_first
                .and_then(|text| serde_json::from_str(&text).ok())
                .ok_or_else(|| Undecodable::explain::<T>(&self.0, &error))
        })
    }

    /// Takes JSON that a person or another program wrote into the canonical text.
    ///
    /// Numbers keep every digit: nothing passes through a float. Refuses what [`Value::encode`]
    /// refuses, and text that is not JSON.
    ///
    /// ```
    /// let value = passbook::Value::parse(r#"{"total":1.50e1, "id":12345678901234567890123}"#).unwrap();
    /// assert_eq!(value.as_str(), r#"{"id": 12345678901234567890123, "total": 15.0}"#);
    /// ```
    pub fn parse(json: &str) -> Result<Self, Refused> {
        let mut writer = Writer::new();
        let written = read::document(json, &mut writer);
        writer.finish(written).map(Self)
    }

    /// Wraps the text that a store read back. It is trusted: nothing is checked or rewritten.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many bytes the canonical text has; never none for a value that was encoded.
    #[expect(clippy::len_without_is_empty, reason = "no JSON text is empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.0)
    }
}
