//! Values (provisional).
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;
use std::sync::Arc;
/// Canonical JSON text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Value(Arc<str>);
/// Why a value was refused.
#[derive(Debug)]
pub struct Refused(String);
/// Why a value does not decode.
#[derive(Debug)]
pub struct Undecodable(String);
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Refused {}
impl std::error::Error for Undecodable {}
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl Value {
    /// Encodes.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, Refused> {
        serde_json::to_string(value)
            .map(|t| Self(t.into()))
            .map_err(|e| Refused(e.to_string()))
    }
    /// Decodes.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Undecodable> {
        serde_json::from_str(&self.0).map_err(|e| Undecodable(e.to_string()))
    }
    /// Parses.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let v: serde_json::Value = serde_json::from_str(text).map_err(|e| Refused(e.to_string()))?;
        Self::encode(&v)
    }
    /// Trusts.
    pub fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }
    /// Text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
