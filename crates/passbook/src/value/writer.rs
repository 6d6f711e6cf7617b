//! The one writer of canonical text, fed by serde and by the JSON reader.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::number::{self, OutOfRange};
use super::{MAX_DEPTH, MAX_VALUE_BYTES, Refused, place};

/// How the control characters are spelled; the first is refused before it is looked up.
const CONTROLS: [&str; 32] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007", "\\b", "\\t", "\\n",
    "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f", "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015",
    "\\u0016", "\\u0017", "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

/// Why writing stopped. The place is not here: the writer notes it as the fault passes through.
#[derive(Debug)]
pub(super) struct Fault(Box<str>);

impl Fault {
    pub(super) fn new(reason: impl Into<Box<str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

impl serde::ser::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}

/// Canonical text under way.
#[derive(Debug)]
pub(super) struct Writer {
    out: String,
    /// The arrays and objects that are not closed yet, outermost first: the depth and the place.
    open: Vec<Open>,
    /// The entries of all open objects; each object knows where its own begin.
    entries: Vec<Entry>,
    /// Where the entries of an object are put into order, kept for the next object.
    ordered: String,
    /// The first fault, with its place. Nothing is written after it, so that a `Serialize` which
    /// carries on after an error of its part cannot get half a value stored.
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Whether one of its values is being written; between two, a fault is the container's own.
    busy: bool,
}

#[derive(Debug)]
enum Kind {
    Array {
        count: usize,
    },
    Object {
        /// Where its bracket stands.
        start: usize,
        /// Its first one in `Writer::entries`.
        first: usize,
        /// Whether every key so far came after the one before: then there is nothing to do at the end.
        sorted: bool,
    },
}

/// Where an entry stands in the text.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    /// After the closing quote of the key.
    key_end: usize,
    /// After the value.
    end: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            out: String::with_capacity(128),
            open: Vec::new(),
            entries: Vec::new(),
            ordered: String::new(),
            refused: None,
        }
    }

    pub(super) fn finish(mut self, written: Result<(), Fault>) -> Result<Arc<str>, Refused> {
        if let Err(fault) = written {
            self.note(&fault);
        }
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok(self.out.into()),
        }
    }

    /// Appends text that needs no escaping.
    #[inline]
    pub(super) fn push(&mut self, text: &str) -> Result<(), Fault> {
        // Before it is copied: a value of 200 MB is refused at 16.
        if text.len() > MAX_VALUE_BYTES - self.out.len() {
            return Err(too_large());
        }
        self.out.push_str(text);
        Ok(())
    }

    /// Appends an integer of any width.
    pub(super) fn integer<I: serde::Serialize>(&mut self, value: I) -> Result<(), Fault> {
        self.short(|out| number::push_integer(out, value))
    }

    pub(super) fn f64(&mut self, value: f64) -> Result<(), Fault> {
        finite(value)?;
        self.short(|out| number::push_f64(out, value))
    }

    pub(super) fn f32(&mut self, value: f32) -> Result<(), Fault> {
        finite(f64::from(value))?;
        self.short(|out| number::push_f32(out, value))
    }

    /// Appends a number that follows the grammar of JSON, digit by digit.
    pub(super) fn number(&mut self, text: &str) -> Result<(), Fault> {
        self.short(|out| number::push(out, text))?.map_err(|OutOfRange| {
            Fault::new(
                "the number has more digits than Postgres' `numeric` holds (131072 before the point \
                 and 16383 after it); store it as a string",
            )
        })
    }

    /// Appends a string or a key, quoted.
    #[inline]
    pub(super) fn string(&mut self, text: &str) -> Result<(), Fault> {
        self.push("\"")?;
        self.escaped(text)?;
        self.push("\"")
    }

    /// Appends what displays as a string or a key, quoted, without building it first.
    pub(super) fn display<T: fmt::Display + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        struct Escaping<'w>(&'w mut Writer, Option<Fault>);

        impl fmt::Write for Escaping<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.escaped(text).map_err(|fault| {
                    self.1.get_or_insert(fault);
                    fmt::Error
                })
            }
        }

        self.push("\"")?;
        let mut escaping = Escaping(self, None);
        let displayed = write!(escaping, "{value}");
        match (escaping.1, displayed) {
            (Some(fault), _) => return Err(fault),
            (None, Err(fmt::Error)) => {
                return Err(Fault::new("its `Display` fails; it has to give text"));
            }
            (None, Ok(())) => {}
        }
        self.push("\"")
    }

    pub(super) fn begin_array(&mut self) -> Result<(), Fault> {
        self.begin(Kind::Array { count: 0 })?;
        self.push("[")
    }

    /// Writes the next element by `write`.
    pub(super) fn element(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.whole()?;
        let open = self.innermost();
        open.busy = true;
        let Kind::Array { count } = &mut open.kind else {
            unreachable!("only an array has elements");
        };
        *count += 1;
        let separator = if *count > 1 { ", " } else { "" };
        self.push(separator)
            .and_then(|()| write(self))
            .map_err(|fault| self.note(&fault))?;
        self.innermost().busy = false;
        Ok(())
    }

    pub(super) fn end_array(&mut self) -> Result<(), Fault> {
        self.whole()?;
        self.push("]")?;
        self.open.pop();
        Ok(())
    }

    pub(super) fn begin_object(&mut self) -> Result<(), Fault> {
        let (start, first) = (self.out.len(), self.entries.len());
        self.begin(Kind::Object {
            start,
            first,
            sorted: true,
        })?;
        self.push("{")
    }

    /// Writes the next key by `write`, quotes included; its value has to follow.
    pub(super) fn key(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.whole()?;
        self.begin_key(write).map_err(|fault| self.note(&fault))
    }

    fn begin_key(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        let &mut Open {
            kind: Kind::Object { first, .. },
            busy: false,
        } = self.innermost()
        else {
            return Err(Fault::new(
                "the map is written with two keys in a row; mend its `Serialize`",
            ));
        };
        if self.entries.len() > first {
            self.push(", ")?;
        }
        let start = self.out.len();
        write(self)?;
        let entry = Entry {
            start,
            key_end: self.out.len(),
            end: self.out.len(),
        };
        let in_order = match self.entries[first..].last() {
            Some(last) => compare_keys(&self.out, last, &entry) == Ordering::Less,
            None => true,
        };
        self.entries.push(entry);
        self.push(": ")?;

        let open = self.innermost();
        open.busy = true;
        if let Kind::Object { sorted, .. } = &mut open.kind {
            *sorted &= in_order;
        }
        Ok(())
    }

    /// Writes the value under the last key by `write`.
    pub(super) fn value(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.whole()?;
        if !self.innermost().busy {
            return Err(self.note(&Fault::new(
                "the map is written with a value before its key; mend its `Serialize`",
            )));
        }
        write(self).map_err(|fault| self.note(&fault))?;
        self.innermost().busy = false;
        if let Some(entry) = self.entries.last_mut() {
            entry.end = self.out.len();
        }
        Ok(())
    }

    pub(super) fn end_object(&mut self) -> Result<(), Fault> {
        self.whole()?;
        let &mut Open {
            kind: Kind::Object { start, first, sorted },
            busy: false,
        } = self.innermost()
        else {
            return Err(Fault::new(
                "the map is written with a key that has no value; mend its `Serialize`",
            ));
        };
        self.push("}")?;
        if !sorted {
            self.reorder(start, first);
        }
        self.entries.truncate(first);
        self.open.pop();
        Ok(())
    }

    /// Puts the entries of a closed object into the order of `jsonb`, the last of equal keys only.
    fn reorder(&mut self, start: usize, first: usize) {
        let out = &self.out;
        let entries = &mut self.entries[first..];
        entries.sort_unstable_by(|a, b| compare_keys(out, a, b).then(a.start.cmp(&b.start)));

        let ordered = &mut self.ordered;
        ordered.clear();
        for (at, entry) in entries.iter().enumerate() {
            let superseded = entries
                .get(at + 1)
                .is_some_and(|next| compare_keys(out, entry, next) == Ordering::Equal);
            if !superseded {
                ordered.push_str(if ordered.is_empty() { "{" } else { ", " });
                ordered.push_str(&out[entry.start..entry.end]);
            }
        }
        ordered.push('}');
        self.out.truncate(start);
        self.out.push_str(&self.ordered);
    }

    fn begin(&mut self, kind: Kind) -> Result<(), Fault> {
        if self.open.len() == MAX_DEPTH {
            return Err(Fault::new(format!(
                "nested deeper than {MAX_DEPTH} levels, which nothing could decode; flatten it, or store this part as a string"
            )));
        }
        self.open.push(Open { kind, busy: false });
        Ok(())
    }

    #[inline]
    fn innermost(&mut self) -> &mut Open {
        self.open
            .last_mut()
            .expect("parts are written only between a container's begin and its end")
    }

    /// Fails once something was refused, so that the open containers are the caller's own.
    #[inline]
    fn whole(&self) -> Result<(), Fault> {
        match &self.refused {
            Some(refused) => Err(Fault::new(refused.reason())),
            None => Ok(()),
        }
    }

    /// Remembers the first fault with the place that is being written, and hands it on.
    pub(super) fn note(&mut self, fault: &Fault) -> Fault {
        if self.refused.is_none() {
            self.refused = Some(Refused::new(self.place(), fault.0.to_string()));
        }
        Fault(fault.0.clone())
    }

    fn place(&self) -> String {
        let mut place = place::ROOT.to_owned();
        for (depth, open) in self.open.iter().enumerate().filter(|(_, open)| open.busy) {
            match open.kind {
                Kind::Array { count } => place::push_index(&mut place, count - 1),
                Kind::Object { .. } => {
                    // The current entry is the last before those of the next open object.
                    let own = self.open[depth + 1..].iter().find_map(|inner| match inner.kind {
                        Kind::Object { first, .. } => Some(first),
                        Kind::Array { .. } => None,
                    });
                    let entry = self.entries[..own.unwrap_or(self.entries.len())].last();
                    let entry = entry.expect("a busy object has an entry");
                    place::push_key(&mut place, &self.out[entry.start + 1..entry.key_end - 1]);
                }
            }
        }
        place
    }

    fn escaped(&mut self, text: &str) -> Result<(), Fault> {
        // Without an early exit, so that the compiler looks at many bytes at once.
        let clean = |byte| byte >= b' ' && byte != b'"' && byte != b'\\';
        if text.bytes().fold(true, |all, byte| all & clean(byte)) {
            return self.push(text);
        }
        let mut clean = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"",
                b'\\' => "\\\\",
                0 => {
                    return Err(Fault::new(
                        "it has a NUL character, which Postgres cannot hold in `jsonb`; strip it, or store the bytes",
                    ));
                }
                control if control < b' ' => CONTROLS[usize::from(control)],
                _ => continue,
            };
            self.push(&text[clean..at])?;
            self.push(escape)?;
            clean = at + 1;
        }
        self.push(&text[clean..])
    }

    /// Lets `write` append what is too short to check beforehand.
    fn short<R>(&mut self, write: impl FnOnce(&mut String) -> R) -> Result<R, Fault> {
        let start = self.out.len();
        let written = write(&mut self.out);
        if self.out.len() > MAX_VALUE_BYTES {
            // Back under the limit, which `push` relies on.
            self.out.truncate(start);
            return Err(too_large());
        }
        Ok(written)
    }
}

/// The order of `jsonb`: by length, then by bytes, both of the key without its escapes.
fn compare_keys(out: &str, a: &Entry, b: &Entry) -> Ordering {
    let [a, b] = [a, b].map(|entry| &out[entry.start + 1..entry.key_end - 1]);
    if !a.contains('\\') && !b.contains('\\') {
        return a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    }
    unescaped(a)
        .count()
        .cmp(&unescaped(b).count())
        .then_with(|| unescaped(a).cmp(unescaped(b)))
}

/// The bytes of a key as this writer escaped it.
fn unescaped(key: &str) -> impl Iterator<Item = u8> {
    let mut bytes = key.bytes();
    std::iter::from_fn(move || {
        let byte = bytes.next()?;
        if byte != b'\\' {
            return Some(byte);
        }
        Some(match bytes.next()? {
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => {
                let digits = bytes.by_ref().take(4);
                digits.fold(0, |code, digit| match digit {
                    b'0'..=b'9' => code * 16 + (digit - b'0'),
                    _ => code * 16 + (digit - b'a') + 10,
                })
            }
            quoted => quoted,
        })
    })
}

fn finite(value: f64) -> Result<(), Fault> {
    if value.is_finite() {
        return Ok(());
    }
    let name = if value.is_nan() { "NaN" } else { "an infinity" };
    Err(Fault::new(format!(
        "{name} is not a JSON number; store `None` or a string instead"
    )))
}

fn too_large() -> Fault {
    Fault::new(format!(
        "the value is larger than {MAX_VALUE_BYTES} bytes of text; store it elsewhere and return a reference to it"
    ))
}
