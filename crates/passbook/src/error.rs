//! What the library itself can fail with.

use std::error::Error as StdError;
use std::fmt;

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of this library did not happen.
///
/// Opaque on purpose: a caller decides by the predicates, a person reads the message. A workflow's own failure is
/// data (see [`Status::error`](crate::Status::error)), never one of these.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Fenced,
    Unavailable,
    NotFound,
    Foreign,
    Undecodable,
    Refused,
    Duplicate,
    Invalid,
    Store,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// A write under a token below the highest.
    pub fn fenced(operation: &str, workflow: &str) -> Self {
        Self::new(
            Kind::Fenced,
            format!(
                "{operation} of workflow `{workflow}` was refused: another pass holds it now, or it was cancelled or deleted"
            ),
        )
    }

    /// The store could not be reached, or gave up for a reason that passes by itself. Asking again may succeed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// What was asked for is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// The workflow belongs to another kind than the one named.
    pub fn wrong_kind(workflow: &str, named: &str) -> Self {
        Self::new(
            Kind::Foreign,
            format!(
                "workflow `{workflow}` was started as another kind than `{named}`; ids are shared by all kinds, so choose another id or name the kind it was started as"
            ),
        )
    }

    /// A stored value that does not decode into the type asked for. The record stays as it is.
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self::new(Kind::Undecodable, message)
    }

    /// A value, a name or an id that no store takes. Nothing was written.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// Two steps of one name in one pass.
    pub fn duplicate(workflow: &str, step: &str) -> Self {
        Self::new(
            Kind::Duplicate,
            format!(
                "workflow `{workflow}` has two steps named `{step}` in one pass; a name is the key of its record, so give each its own (in a loop, add the item to the name)"
            ),
        )
    }

    /// A configuration or an argument that cannot work.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// The store refused for a reason that does not pass by itself.
    pub fn store(message: impl Into<String>) -> Self {
        Self::new(Kind::Store, message)
    }

    /// Adds what caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The pass no longer holds the workflow: another holds it, or it was cancelled or deleted.
    pub fn is_fenced(&self) -> bool {
        self.0.kind == Kind::Fenced
    }

    /// The store could not be reached or was overloaded; whether the write happened is unknown, and asking again is
    /// safe.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// There is no such workflow, value or schema.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }

    /// The id belongs to a workflow of another kind.
    pub fn is_wrong_kind(&self) -> bool {
        self.0.kind == Kind::Foreign
    }

    /// A stored value does not decode into the type asked for.
    pub fn is_undecodable(&self) -> bool {
        self.0.kind == Kind::Undecodable
    }

    /// A value, a name or an id was refused before anything was written.
    pub fn is_refused(&self) -> bool {
        self.0.kind == Kind::Refused
    }

    /// A name was used twice in one pass.
    pub fn is_duplicate(&self) -> bool {
        self.0.kind == Kind::Duplicate
    }

    /// A configuration or an argument cannot work.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        // One line tells the whole story, in a log as well as in the workflow's row.
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message has the source in it already; what is behind that one is still to be told.
        self.0.source.as_ref().and_then(|source| source.source())
    }
}
