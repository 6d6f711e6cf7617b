//! Where in a value something stands, like `$.items[3].price`.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_path_to_error::{Path, Segment};

use super::scan;

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
                let element = scan::elements(here).nth(*index);
                element.inspect(|_| push_index(&mut place, *index))
            }
            Segment::Map { key } | Segment::Enum { variant: key } => {
                // The last one, should another writer have left two.
                let entry = scan::entries(here).filter(|(quoted, _)| means(quoted, key)).last();
                entry.map(|(quoted, value)| {
                    push_key(&mut place, &quoted[1..quoted.len() - 1]);
                    value
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

fn means(quoted: &str, key: &str) -> bool {
    serde_json::from_str::<Cow<'_, str>>(quoted).is_ok_and(|read| read == key)
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
