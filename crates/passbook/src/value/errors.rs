//! Why a value cannot be written, and why it cannot be read.

use std::fmt;

use serde::de::DeserializeOwned;

use super::place;

/// A value that no store may hold; nothing was written.
///
/// The effect that returned it has happened. Trying again would repeat the effect, so the type, not
/// the step, is what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    place: String,
    reason: String,
}

impl Refused {
    pub(super) fn new(place: String, reason: String) -> Self {
        Self { place, reason }
    }

    /// Where in the value, like `$.items[3].price`; `$` is the value as a whole.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong there, and what to do about it.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value refused at `{}`: {}", self.place, self.reason)
    }
}

impl std::error::Error for Refused {}

/// A stored value that does not fit the type asked for; the value is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable {
    place: String,
    expected: &'static str,
    found: &'static str,
    reason: String,
}

impl Undecodable {
    /// Reads the text again, this time following the path, to say where `error` arose.
    #[cold]
    pub(super) fn explain<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> Self {
        let mut reader = serde_json::Deserializer::from_str(text);
        let (place, here) = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Err(followed) => place::follow(text, followed.path()),
            // The value itself was read; what follows it is the trouble.
            Ok(_) => (place::ROOT.to_owned(), text),
        };
        Self {
            place,
            expected: std::any::type_name::<T>(),
            found: place::kind(here),
            reason: reason(error),
        }
    }

    /// Where in the value, like `$.items[3].price`; `$` is the value as a whole.
    ///
    /// Inside a flattened, untagged or internally tagged type serde does not know the place; then it
    /// is that of the type.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The type asked for.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// What stands at the place, in words: `a string`, `null`, `an object`.
    pub fn found(&self) -> &'static str {
        self.found
    }

    /// What the type's `Deserialize` says about it.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            expected,
            found,
            reason,
        } = self;
        if place == place::ROOT {
            write!(f, "the value is {found} that is not a `{expected}`")?;
        } else {
            write!(f, "`{place}` is {found} that does not fit into a `{expected}`")?;
        }
        write!(f, " ({reason}); was the type changed?")
    }
}

impl std::error::Error for Undecodable {}

/// The message without its line and column, which mean nothing for one line of canonical text, and
/// not longer than a log line: it may quote a string of many megabytes.
fn reason(error: &serde_json::Error) -> String {
    const LONGEST: usize = 200;

    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
