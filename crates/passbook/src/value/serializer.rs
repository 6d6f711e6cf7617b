//! serde's view of the writer: every type as `serde_json` represents it.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize, Serializer};

use super::key::Key;
use super::read;
use super::writer::{Fault, Writer};

/// The name under which `serde_json::Number` passes its digits, when it keeps them all.
const NUMBER: &str = "$serde_json::private::Number";
/// The name under which `serde_json::value::RawValue` passes its text.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'w> Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Array<'w>;
    type SerializeTuple = Array<'w>;
    type SerializeTupleStruct = Array<'w>;
    type SerializeTupleVariant = Array<'w>;
    type SerializeMap = Object<'w>;
    type SerializeStruct = Object<'w>;
    type SerializeStructVariant = Object<'w>;

    fn serialize_bool(self, value: bool) -> Result<(), Fault> {
        self.push(if value { "true" } else { "false" })
    }

    fn serialize_i8(self, value: i8) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_i128(self, value: i128) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Fault> {
        self.integer(value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), Fault> {
        self.f32(value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Fault> {
        self.f64(value)
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.string(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Fault> {
        self.string(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Fault> {
        self.begin_array()?;
        for byte in value {
            self.element(|writer| writer.integer(byte))?;
        }
        self.end_array()
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.push("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Fault> {
        self.push("null")
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Fault> {
        self.push("null")
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Result<(), Fault> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        self.begin_object()?;
        self.key(|writer| writer.string(variant))?;
        self.value(|writer| value.serialize(writer))?;
        self.end_object()
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Array<'w>, Fault> {
        self.begin_array()?;
        Ok(Array {
            writer: self,
            variant: false,
        })
    }

    fn serialize_tuple(self, _len: usize) -> Result<Array<'w>, Fault> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Array<'w>, Fault> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Array<'w>, Fault> {
        self.begin_object()?;
        self.key(|writer| writer.string(variant))?;
        self.begin_array()?;
        Ok(Array {
            writer: self,
            variant: true,
        })
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Object<'w>, Fault> {
        self.begin_object()?;
        Ok(Object {
            writer: self,
            shape: Shape::Plain,
        })
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Object<'w>, Fault> {
        match name {
            NUMBER => Ok(Object {
                writer: self,
                shape: Shape::Number,
            }),
            RAW_VALUE => Ok(Object {
                writer: self,
                shape: Shape::Raw,
            }),
            _ => self.serialize_map(None),
        }
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Object<'w>, Fault> {
        self.begin_object()?;
        self.key(|writer| writer.string(variant))?;
        self.begin_object()?;
        Ok(Object {
            writer: self,
            shape: Shape::Variant,
        })
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Fault> {
        self.display(value)
    }
}

/// An array under way.
#[derive(Debug)]
pub(super) struct Array<'w> {
    writer: &'w mut Writer,
    /// Whether it stands inside the object that names an enum's variant.
    variant: bool,
}

impl Array<'_> {
    fn close(self) -> Result<(), Fault> {
        self.writer.end_array()?;
        if self.variant {
            // The variant's value is complete; only its object is left to close.
            self.writer.value(|_| Ok(()))?;
            self.writer.end_object()?;
        }
        Ok(())
    }
}

impl ser::SerializeSeq for Array<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.writer.element(|writer| value.serialize(writer))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeTuple for Array<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.writer.element(|writer| value.serialize(writer))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeTupleStruct for Array<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.writer.element(|writer| value.serialize(writer))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeTupleVariant for Array<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.writer.element(|writer| value.serialize(writer))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

/// A map or a struct under way.
#[derive(Debug)]
pub(super) struct Object<'w> {
    writer: &'w mut Writer,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Plain,
    /// Inside the object that names an enum's variant.
    Variant,
    /// No object at all: its one field holds the digits of a number.
    Number,
    /// No object at all: its one field holds JSON text.
    Raw,
}

impl Object<'_> {
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
        match self.shape {
            Shape::Plain | Shape::Variant => {
                self.writer.key(|writer| writer.string(key))?;
                self.writer.value(|writer| value.serialize(writer))
            }
            Shape::Number | Shape::Raw => self.verbatim(value).map_err(|fault| self.writer.note(&fault)),
        }
    }

    fn verbatim<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        let text = text(value)?;
        if matches!(self.shape, Shape::Raw) {
            return read::document(&text, self.writer);
        }
        if !read::is_number(&text) {
            return Err(Fault::new(format!(
                "`{text}` is not a JSON number; store it as a string"
            )));
        }
        self.writer.number(&text)
    }

    fn close(self) -> Result<(), Fault> {
        match self.shape {
            Shape::Plain => self.writer.end_object(),
            Shape::Variant => {
                self.writer.end_object()?;
                // The variant's value is complete; only its object is left to close.
                self.writer.value(|_| Ok(()))?;
                self.writer.end_object()
            }
            Shape::Number | Shape::Raw => Ok(()),
        }
    }
}

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        self.writer.key(|writer| key.serialize(Key(writer)))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        self.writer.value(|writer| value.serialize(writer))
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeStruct for Object<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
        self.field(key, value)
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

impl ser::SerializeStructVariant for Object<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Fault> {
        self.field(key, value)
    }

    fn end(self) -> Result<(), Fault> {
        self.close()
    }
}

/// The string that a value serializes as, unescaped.
fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, Fault> {
    struct Shown<'v, T: ?Sized>(&'v T);

    impl<T: Serialize + ?Sized> fmt::Display for Shown<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }

    let mut text = String::new();
    match write!(text, "{}", Shown(value)) {
        Ok(()) => Ok(text),
        Err(fmt::Error) => Err(Fault::new(
            "a number or raw JSON is not given as text; mend its `Serialize`",
        )),
    }
}
