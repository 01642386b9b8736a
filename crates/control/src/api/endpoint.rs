//! The description of an API address: its parameters, the rights that it needs, and the type of its answer.

use schemars::{JsonSchema, SchemaGenerator};

/// A query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// A value it may have.
    pub example: &'static str,
    /// Its description in one sentence.
    pub doc: &'static str,
}

/// One method at one address.
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The address.
    pub path: &'static str,
    /// Its description in one sentence.
    pub doc: &'static str,
    /// The query parameters.
    pub parameters: &'static [Parameter],
    /// True if the body is the text of a configuration.
    pub takes_text: bool,
    /// The rights it needs.
    pub needs: AccessLevel,
    /// The type of its answer.
    pub answer: AnswerType,
}

/// The rights of a caller: see [`crate::access`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccessLevel {
    /// Access to the caller's own slices.
    Slice,
    /// Read access: counters, tables, configurations.
    Read,
    /// Full access: change the router, or see the packets of others.
    Full,
}

impl AccessLevel {
    /// Returns its name for the reference page.
    pub const fn name(self) -> &'static str {
        match self {
            AccessLevel::Slice => "slice",
            AccessLevel::Read => "read",
            AccessLevel::Full => "full",
        }
    }
}

/// The media type of lines of JSON.
pub(crate) const LINES: &str = "application/x-ndjson";

/// The format of an answer.
#[derive(Clone, Copy)]
pub enum AnswerType {
    /// JSON of a named type, which registers its schema.
    Json(&'static str, fn(&mut SchemaGenerator)),
    /// Lines of JSON, each of a named type, which registers its schema.
    Lines(&'static str, fn(&mut SchemaGenerator)),
    /// Another format, with its media type.
    Other(&'static str),
}

/// An answer in JSON.
pub(super) const fn json<T: JsonSchema>(name: &'static str) -> AnswerType {
    AnswerType::Json(name, |generator| drop(generator.subschema_for::<T>()))
}

/// A request that changes nothing, for callers that may read.
pub(super) const fn get(path: &'static str, doc: &'static str, answer: AnswerType) -> Endpoint {
    Endpoint { method: "GET", path, doc, parameters: &[], takes_text: false, needs: AccessLevel::Read, answer }
}

/// A request with the text of a configuration or of changes, for callers with full access.
pub(super) const fn post(
    path: &'static str,
    doc: &'static str,
    parameters: &'static [Parameter],
    answer: AnswerType,
) -> Endpoint {
    Endpoint { method: "POST", path, doc, parameters, takes_text: true, needs: AccessLevel::Full, answer }
}
