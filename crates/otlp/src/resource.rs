//! Whose metrics and spans these are, in the names of OpenTelemetry's conventions for resources.

use crate::proto::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use crate::proto::resource::v1::Resource as Message;
use std::collections::BTreeMap;

/// Attributes of this process.
#[derive(Clone, Debug)]
pub struct Resource {
    attributes: BTreeMap<String, String>,
    version: String,
}

impl Resource {
    /// Of `service` (`headroom-route`) on `host`. `instance` is the same for the next process in its place:
    /// one that takes over goes on with the series of this one. `more` are the operator's, who is right where
    /// both say something.
    pub fn new(service: &str, instance: &str, host: &str, version: &str, more: &[(String, String)]) -> Self {
        let ours = [
            ("service.name", service),
            ("service.instance.id", instance),
            ("service.version", version),
            ("host.name", host),
        ];
        let ours = ours.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Self {
            attributes: ours.into_iter().chain(more.iter().cloned()).collect(),
            version: version.to_owned(),
        }
    }

    pub(crate) fn message(&self) -> Message {
        let attributes = self.attributes.iter().map(|(key, value)| text(key, value)).collect();
        Message { attributes, ..Message::default() }
    }

    /// What made them.
    pub(crate) fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: "headroom".to_owned(),
            version: self.version.clone(),
            ..InstrumentationScope::default()
        }
    }
}

pub(crate) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

pub(crate) fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_right_where_both_say_something() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let more = [pair("service.name", "a"), pair("service.name", "b"), pair("cluster", "c")];
        let resource = Resource::new("headroom-route", "h/127.0.0.1:9306", "h", "0.1.0", &more);
        let attributes = resource.message().attributes;
        let wanted = [
            ("cluster", "c"),
            ("host.name", "h"),
            ("service.instance.id", "h/127.0.0.1:9306"),
            ("service.name", "b"),
            ("service.version", "0.1.0"),
        ];
        assert_eq!(attributes, wanted.map(|(key, value)| text(key, value)));
    }
}
