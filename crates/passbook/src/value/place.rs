//! Where in a value something stands, like `$.items[3].price`.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_path_to_error::{Path, Segment};

/// The value as a whole.
pub(super) const ROOT: &str = "$";

/// Keys are cut here, so that an error stays readable.
const LONGEST_KEY: usize = 64;

/// Goes into an array.
pub(super) fn push_index(place: &mut String, index: usize) {
    write!(place, "[{index}]").expect("a string takes any text");
}

/// Goes into an object. The key is as the text spells it, escaped and without its quotes.
pub(super) fn push_key(place: &mut String, key: &str) {
    let plain = !key.is_empty()
        && !key.starts_with(|first: char| first.is_ascii_digit())
        && key.chars().all(|c| c == '_' || c.is_alphanumeric());
    let shown = match key.char_indices().nth(LONGEST_KEY) {
        Some((end, _)) => Cow::Owned(format!("{}…", &key[..end])),
        None => Cow::Borrowed(key),
    };
    let written = if plain {
        write!(place, ".{shown}")
    } else {
        write!(place, "[\"{shown}\"]")
    };
    written.expect("a string takes any text");
}

/// Follows a path through JSON text as far as it goes; returns the place and the text there.
///
/// It stops early where the path speaks of something the text has not: a missing field, or the
/// variant of an enum that is not written as a key.
pub(super) fn follow<'t>(text: &'t str, path: &Path) -> (String, &'t str) {
    let mut place = ROOT.to_owned();
    let mut here = text.trim_start();
    for segment in path {
        let inner = match segment {
            Segment::Seq { index } => {
                element(here, *index).inspect(|_| push_index(&mut place, *index))
            }
            Segment::Map { key } | Segment::Enum { variant: key } => {
                entry(here, key).map(|(spelled, inner)| {
                    push_key(&mut place, spelled);
                    inner
                })
            }
            Segment::Unknown => None,
        };
        match inner {
            Some(inner) => here = inner,
            None => break,
        }
    }
    (place, here)
}

/// What the text begins with, in words.
pub(super) fn kind(text: &str) -> &'static str {
    match text.bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(b'-' | b'0'..=b'9') => "a number",
        _ => "text that is not JSON",
    }
}

/// The text from the element at `index` on.
fn element(array: &str, index: usize) -> Option<&str> {
    let mut rest = array.strip_prefix('[')?.trim_start();
    for _ in 0..index {
        rest = after_value(rest)?
            .trim_start()
            .strip_prefix(',')?
            .trim_start();
    }
    (!rest.starts_with(']')).then_some(rest)
}

/// The text from the last value under `key` on, and how the text spells the key.
fn entry<'t>(object: &'t str, key: &str) -> Option<(&'t str, &'t str)> {
    let mut found = None;
    let mut rest = object.strip_prefix('{')?.trim_start();
    while rest.starts_with('"') {
        let after = after_value(rest)?;
        let quoted = &rest[..rest.len() - after.len()];
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        if serde_json::from_str::<Cow<'_, str>>(quoted).is_ok_and(|read| read == key) {
            found = Some((&quoted[1..quoted.len() - 1], value));
        }
        match after_value(value)?.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => break,
        }
    }
    found
}

/// The text after the value that it begins with.
fn after_value(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => loop {
                match bytes.next()?.1 {
                    b'\\' => drop(bytes.next()),
                    b'"' => break,
                    _ => {}
                }
            },
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 0 => depth -= 1,
            // The end of a bare word or number, which leaves its follower in place.
            b',' | b':' | b']' | b'}' if depth == 0 => return Some(&text[at..]),
            _ => continue,
        }
        if depth == 0 {
            let end = bytes.next().map_or(text.len(), |(next, _)| next);
            return text.get(end..);
        }
    }
    (depth == 0).then_some("")
}
