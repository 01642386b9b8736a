//! Counters in the API: each is a number under its declared name ([`CounterSet`]).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use units::CounterSet;

/// A set of counters, as fields of its port, path or link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterFields<T>(pub T);

impl<T> Deref for CounterFields<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: CounterSet> Serialize for CounterFields<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(T::COUNTERS.len()))?;
        for (counter, value) in self.0.each() {
            map.serialize_entry(counter.name, &value)?;
        }
        map.end()
    }
}

impl<'de, T: CounterSet> Deserialize<'de> for CounterFields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CounterVisitor(PhantomData))
    }
}

/// Every counter of ports, links, paths, multicast groups and workers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CountersReply {
    /// When they were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The counters.
    pub counters: Vec<CounterValue>,
}

/// A counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CounterValue {
    /// `port`, `link`, `path`, `multicast` or `worker`. Followed by `name`, it is the name of the metric.
    pub kind: String,
    /// The owner of the counter: the name of the port or path; the port and the worker of a link; the group; the number of the worker.
    pub of: String,
    /// Its name, with its unit.
    pub name: String,
    /// The value.
    pub value: u64,
    /// Its description.
    pub help: String,
}

impl CountersReply {
    /// Adds the counters of one owner.
    pub fn add<T: CounterSet>(&mut self, kind: &str, of: &str, set: &T) {
        self.counters.extend(set.each().map(|(counter, value)| CounterValue {
            kind: kind.to_owned(),
            of: of.to_owned(),
            name: counter.name.to_owned(),
            value,
            help: counter.help.to_owned(),
        }));
    }
}

/// Reads the counters of an object. A missing counter is zero, because a router of an older version does not have it. Other fields are ignored.
struct CounterVisitor<T>(PhantomData<T>);

impl<'de, T: CounterSet> Visitor<'de> for CounterVisitor<T> {
    type Value = CounterFields<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<CounterFields<T>, A::Error> {
        let mut counters = T::default();
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            match T::COUNTERS.iter().position(|counter| counter.name == name) {
                Some(place) => {
                    let value = fields.next_value()?;
                    counters.values_mut().skip(place).take(1).for_each(|counter| *counter = value);
                }
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(CounterFields(counters))
    }
}

impl<T: CounterSet> JsonSchema for CounterFields<T> {
    fn schema_name() -> Cow<'static, str> {
        "Counters".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let of = |help: &str| json!({ "type": "integer", "format": "uint64", "minimum": 0, "description": help });
        let fields: Map<String, Value> = T::COUNTERS.iter().map(|c| (c.name.to_owned(), of(c.help))).collect();
        let names: Vec<&str> = T::COUNTERS.iter().map(|counter| counter.name).collect();
        json!({ "type": "object", "properties": fields, "required": names }).try_into().expect("an object is a schema")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fib::route_cache::RouteCacheCounters;
    use packet::{LinkCounters, PortCounters};
    use schemars::schema_for;

    units::counters! {
        /// Counters of this test.
        pub struct Strange {
            /// Frames that were blue.
            blue "blue_packets";
            /// Other frames.
            other "other_packets";
        }
    }

    #[derive(PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
    struct Thing {
        name: String,
        #[serde(flatten)]
        counters: CounterFields<Strange>,
        #[serde(flatten)]
        link: CounterFields<LinkCounters>,
    }

    #[test]
    fn declared_counters_are_in_json_and_schema() {
        let link = LinkCounters { sent: 7, ..LinkCounters::default() };
        let thing = Thing {
            name: "a".into(),
            counters: CounterFields(Strange { blue: 3, other: 1 }),
            link: CounterFields(link),
        };
        let json = serde_json::to_value(&thing).unwrap();
        assert_eq!((&json["blue_packets"], &json["sent_packets"]), (&3.into(), &7.into()));
        assert_eq!(serde_json::from_value::<Thing>(json).unwrap(), thing);
        let older: Thing = serde_json::from_str(r#"{ "name": "b", "other_packets": 2, "more": [1] }"#).unwrap();
        assert_eq!((older.counters.0, older.link.0), (Strange { blue: 0, other: 2 }, LinkCounters::default()));
        let schema = schema_for!(Thing);
        let properties = &schema.as_value()["properties"];
        assert_eq!(properties["blue_packets"]["description"], "Frames that were blue.");
        assert!(properties["name"].is_object() && properties["opportunities_withheld"].is_object());
    }

    /// Two sets of one object must not overwrite each other's fields.
    #[test]
    fn counters_of_one_object_have_different_names() {
        let names = LinkCounters::COUNTERS
            .iter()
            .chain(PortCounters::COUNTERS)
            .chain(RouteCacheCounters::COUNTERS)
            .map(|counter| counter.name);
        let names: Vec<&str> = names.collect();
        let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
