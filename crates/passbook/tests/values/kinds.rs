//! Types of every shape that a value can have, and the moves that the tests are made of.

use std::collections::BTreeMap;
use std::fmt::Debug;

use passbook::{Refused, Value};
use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

/// Writes and reads a value, and checks on the way that its text is canonical.
pub(crate) fn through<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let encoded = Value::encode(value).unwrap();
    let parsed = Value::parse(encoded.as_str()).unwrap();
    assert_eq!(encoded, parsed, "the text is in its own canonical form");
    let json = serde_json::to_string(value).unwrap();
    let untyped: serde_json::Value = serde_json::from_str(encoded.as_str()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(bare(untyped), bare(expected), "it is what serde_json represents");
    Value::stored(encoded.as_str()).decode().unwrap()
}

/// Without the sign of a negative zero, which a store does not keep.
pub(crate) fn bare(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Number(number) if number.as_f64() == Some(0.0) => 0.into(),
        serde_json::Value::Array(items) => items.into_iter().map(bare).collect(),
        serde_json::Value::Object(entries) => {
            let entries = entries.into_iter();
            entries.map(|(key, value)| (key, bare(value))).collect()
        }
        other => other,
    }
}

#[track_caller]
pub(crate) fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    assert_eq!(&through(value), value);
}

#[track_caller]
pub(crate) fn text<T: Serialize + ?Sized>(value: &T) -> String {
    Value::encode(value).unwrap().to_string()
}

#[track_caller]
pub(crate) fn refused<T: Serialize + ?Sized>(value: &T) -> Refused {
    Value::encode(value).unwrap_err()
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub(crate) struct Unit;

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
pub(crate) struct Newtype(pub(crate) f64);

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
pub(crate) struct Pair(pub(crate) i128, pub(crate) String);

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
pub(crate) enum External {
    Unit,
    Newtype(f32),
    Tuple(u8, String),
    Struct { price: f64, id: u128 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "type")]
pub(crate) enum Internal {
    Unit,
    Newtype(BTreeMap<String, f32>),
    Struct { price: f32, id: u64 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "type", content = "of")]
pub(crate) enum Adjacent {
    Unit,
    Newtype(f64),
    Tuple(u8, String),
    Struct { price: f64, id: u128 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(untagged)]
pub(crate) enum Untagged {
    Whole(u64),
    Negative(i64),
    Float(f64),
    Text(String),
    Many(Vec<f32>),
    Struct { price: f32 },
}

pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Passes text as `serde_json` does for its own types.
#[derive(Clone, Copy)]
pub(crate) struct Verbatim(pub(crate) &'static str, pub(crate) &'static str);

impl Serialize for Verbatim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut whole = serializer.serialize_struct(self.0, 1)?;
        whole.serialize_field(self.0, self.1)?;
        whole.end()
    }
}

pub(crate) const NUMBER: &str = "$serde_json::private::Number";
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";
