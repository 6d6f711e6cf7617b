//! JSON as people and other programs write it, read into the canonical writer.

use super::writer::{Fault, Writer};

/// Reads one document, and nothing after it.
pub(super) fn document(text: &str, writer: &mut Writer) -> Result<(), Fault> {
    let mut reader = Reader { text, at: 0 };
    reader.value(writer)?;
    match reader.peek() {
        None => Ok(()),
        Some(_) => Err(reader.expected("the end")),
    }
}

/// Whether a text is a number by the grammar of JSON, all of it.
pub(super) fn is_number(text: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.scan_number() && reader.at == text.len()
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn value(&mut self, writer: &mut Writer) -> Result<(), Fault> {
        match self.peek() {
            Some(b'{') => self.object(writer),
            Some(b'[') => self.array(writer),
            Some(b'"') => {
                let token = self.quoted()?;
                string(token, writer)
            }
            Some(b'-' | b'0'..=b'9') => {
                let start = self.at;
                if !self.scan_number() {
                    return Err(self.expected("a digit"));
                }
                writer.number(&self.text[start..self.at])
            }
            _ => {
                for word in ["null", "true", "false"] {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return writer.push(word);
                    }
                }
                Err(self.expected("a value"))
            }
        }
    }

    fn array(&mut self, writer: &mut Writer) -> Result<(), Fault> {
        self.at += 1;
        writer.begin_array()?;
        if !self.eat(b']') {
            loop {
                writer.element(|writer| self.value(writer))?;
                if self.eat(b']') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.expected("`,` or `]`"));
                }
            }
        }
        writer.end_array()
    }

    fn object(&mut self, writer: &mut Writer) -> Result<(), Fault> {
        self.at += 1;
        writer.begin_object()?;
        if !self.eat(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.expected("a key in double quotes"));
                }
                let token = self.quoted()?;
                writer.key(|writer| string(token, writer))?;
                if !self.eat(b':') {
                    return Err(self.expected("`:`"));
                }
                writer.value(|writer| self.value(writer))?;
                if self.eat(b'}') {
                    break;
                }
                if !self.eat(b',') {
                    return Err(self.expected("`,` or `}`"));
                }
            }
        }
        writer.end_object()
    }

    /// Takes a string with its quotes, its escapes unread.
    fn quoted(&mut self) -> Result<&'t str, Fault> {
        let start = self.at;
        let mut bytes = self.text.bytes().enumerate().skip(start + 1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.at = at + 1;
                    return Ok(&self.text[start..self.at]);
                }
                b'\\' => drop(bytes.next()),
                _ => {}
            }
        }
        self.at = self.text.len();
        Err(self.expected("a closing quote"))
    }

    /// Moves past a number; stands where the grammar is broken if it is.
    fn scan_number(&mut self) -> bool {
        self.skip(b'-');
        if !self.skip(b'0') && !self.digits() {
            return false;
        }
        if self.skip(b'.') && !self.digits() {
            return false;
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'+') || self.skip(b'-');
            return self.digits();
        }
        true
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > start
    }

    fn skip(&mut self, byte: u8) -> bool {
        let there = self.next() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// As [`Reader::skip`], over the white space before it.
    fn eat(&mut self, byte: u8) -> bool {
        self.peek();
        self.skip(byte)
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next() {
            self.at += 1;
        }
        self.next()
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected(&self, what: &str) -> Fault {
        let found = match self.text[self.at..].chars().next() {
            Some(found) if found.is_control() => format!("`{}`", found.escape_unicode()),
            Some(found) => format!("`{found}`"),
            None => "the end".to_owned(),
        };
        Fault::new(format!(
            "not JSON: expected {what} at byte {}, found {found}; correct the text",
            self.at
        ))
    }
}

/// Writes a string or a key that is given with its quotes and escapes.
fn string(token: &str, writer: &mut Writer) -> Result<(), Fault> {
    let inner = &token[1..token.len() - 1];
    if !inner.bytes().any(|byte| byte == b'\\' || byte < b' ') {
        return writer.string(inner);
    }
    let text: String = serde_json::from_str(token).map_err(|error| {
        Fault::new(format!(
            "not JSON: the string has a faulty escape or a raw control character ({error}); correct the text"
        ))
    })?;
    writer.string(&text)
}
