//! Taking JSON text apart without reading it: for errors, and for types that need another order.

use super::MAX_DEPTH;

/// The text of each element of an array; none of what is no array.
pub(super) fn elements(array: &str) -> impl Iterator<Item = &str> {
    let mut rest = array.strip_prefix('[').map(str::trim_start);
    std::iter::from_fn(move || {
        let (element, after) = split_value(rest.take()?)?;
        rest = after.strip_prefix(',').map(str::trim_start);
        Some(element)
    })
}

/// The quoted key and the text of each value of an object; none of what is no object.
pub(super) fn entries(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = object.strip_prefix('{').map(str::trim_start);
    std::iter::from_fn(move || {
        let (key, after) = split_value(rest.take()?)?;
        let (value, after) = split_value(after.strip_prefix(':')?.trim_start())?;
        rest = after.strip_prefix(',').map(str::trim_start);
        Some((key, value))
    })
}

/// The same JSON with the strings of every object before its other entries.
///
/// An enum with its tag beside its content can be read without a buffer only if the tag, which is a
/// string, comes first; `jsonb` does not keep it there.
pub(super) fn strings_first(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let rest = push_strings_first(&mut out, text.trim(), MAX_DEPTH)?;
    rest.is_empty().then_some(out)
}

/// Appends the value that the text begins with; returns what follows it.
fn push_strings_first<'t>(out: &mut String, text: &'t str, levels: usize) -> Option<&'t str> {
    match text.bytes().next()? {
        b'{' => {
            let levels = levels.checked_sub(1)?;
            let (mut strings, mut others) = (String::new(), String::new());
            let mut rest = text[1..].trim_start();
            while !rest.starts_with('}') {
                let (key, after) = split_value(rest)?;
                let value = after.strip_prefix(':')?.trim_start();
                let part = if value.starts_with('"') {
                    &mut strings
                } else {
                    &mut others
                };
                part.push_str(key);
                part.push(':');
                rest = after_separator(push_strings_first(part, value, levels)?);
                part.push(',');
            }
            let entries = strings + &others;
            out.push('{');
            out.push_str(entries.trim_end_matches(','));
            out.push('}');
            Some(rest[1..].trim_start())
        }
        b'[' => {
            let levels = levels.checked_sub(1)?;
            let mut separator = "[";
            let mut rest = text[1..].trim_start();
            if rest.starts_with(']') {
                out.push('[');
            }
            while !rest.starts_with(']') {
                out.push_str(separator);
                rest = after_separator(push_strings_first(out, rest, levels)?);
                separator = ",";
            }
            out.push(']');
            Some(rest[1..].trim_start())
        }
        _ => {
            let (value, rest) = split_value(text)?;
            out.push_str(value);
            Some(rest)
        }
    }
}

fn after_separator(text: &str) -> &str {
    text.strip_prefix(',').map_or(text, str::trim_start)
}

/// The value that the text begins with, and what follows it and the white space behind it.
fn split_value(text: &str) -> Option<(&str, &str)> {
    let end = value_end(text)?;
    (end > 0).then(|| (text[..end].trim_end(), text[end..].trim_start()))
}

fn value_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                let end = loop {
                    match bytes.next()? {
                        (_, b'\\') => drop(bytes.next()),
                        (end, b'"') => break end,
                        _ => {}
                    }
                };
                if depth == 0 {
                    return Some(end + 1);
                }
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            // The end of a bare word or number, which leaves its follower in place.
            b',' | b':' | b']' | b'}' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}
