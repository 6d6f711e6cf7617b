//! Which values may be the key of a map: those that `serde_json` can read back from a string.

use std::fmt;

use serde::ser::{Impossible, Serialize, Serializer};

use super::writer::{Fault, Writer};

/// Writes a map's key in quotes.
#[derive(Debug)]
pub(super) struct Key<'w>(pub(super) &'w mut Writer);

impl Key<'_> {
    fn quoted(self, write: impl FnOnce(&mut Writer) -> Result<(), Fault>) -> Result<(), Fault> {
        self.0.push("\"")?;
        write(self.0)?;
        self.0.push("\"")
    }
}

fn refuse<R>(kind: &str) -> Result<R, Fault> {
    Err(Fault::new(format!(
        "a map has {kind} as its key, which JSON cannot write as a string; store the map as a list of pairs"
    )))
}

impl Serializer for Key<'_> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Impossible<(), Fault>;
    type SerializeTuple = Impossible<(), Fault>;
    type SerializeTupleStruct = Impossible<(), Fault>;
    type SerializeTupleVariant = Impossible<(), Fault>;
    type SerializeMap = Impossible<(), Fault>;
    type SerializeStruct = Impossible<(), Fault>;
    type SerializeStructVariant = Impossible<(), Fault>;

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.0.string(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_i16(self, value: i16) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_i32(self, value: i32) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_i64(self, value: i64) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_i128(self, value: i128) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_u8(self, value: u8) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_u16(self, value: u16) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_u32(self, value: u32) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_u128(self, value: u128) -> Result<(), Fault> {
        self.quoted(|writer| writer.integer(value))
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        self.quoted(|writer| writer.f32(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        self.quoted(|writer| writer.f64(value))
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.0.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        self.0.string(value)
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<(), Fault> {
        refuse("a byte string")
    }

    fn serialize_none(self) -> Result<(), Fault> {
        refuse("`None`")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        refuse("`()`")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Fault> {
        refuse(&format!("the unit struct `{name}`"))
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Fault> {
        self.0.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _value: &T,
    ) -> Result<(), Fault> {
        refuse(&format!("the variant `{name}::{variant}` with a value"))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, Fault> {
        refuse("a list")
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, Fault> {
        refuse("a tuple")
    }

    fn serialize_tuple_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeTupleStruct, Fault> {
        refuse(&format!("the tuple struct `{name}`"))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, Fault> {
        refuse(&format!("the variant `{name}::{variant}` with values"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, Fault> {
        refuse("a map")
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeStruct, Fault> {
        refuse(&format!("the struct `{name}`"))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, Fault> {
        refuse(&format!("the variant `{name}::{variant}` with fields"))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Fault> {
        self.0.display(value)
    }
}
