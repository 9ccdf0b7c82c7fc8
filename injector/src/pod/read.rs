//! How the types of a `PodView` are read from JSON, borrowing where the text has no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{
    ContainerView, Field, MapValue, Metadata, Named, PodView, Port, PortRef, Probe, ProbeTarget, SecurityContext, Spec,
    StringMap, Text,
};
use crate::map_only::map_only;

map_only!(
    PodView<'a>,
    Metadata<'a>,
    Spec<'a>,
    ContainerView<'a>,
    Port<'a>,
    Probe<'a>,
    ProbeTarget<'a>,
    Named<'a>
);
map_only!(SecurityContext);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|value| value.map_or(Self::Null, Self::Value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for StringMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = StringMap<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(8).min(64));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(StringMap(entries))
            }
        }
        deserializer.deserialize_map(MapVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MapValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = MapValue<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(MapValue::Text(Text(Cow::Borrowed(value))))
            }
            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(MapValue::Text(Text(Cow::Owned(value.to_owned()))))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(MapValue::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(MapValue::Other(if value {
                    "the boolean true"
                } else {
                    "the boolean false"
                }))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(MapValue::Other("a number"))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(MapValue::Other("a number"))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(MapValue::Other("a number"))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(MapValue::Other("a list"))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(MapValue::Other("an object"))
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PortRef<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PortVisitor;
        impl<'de> Visitor<'de> for PortVisitor {
            type Value = PortRef<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number or name")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(PortRef::Name(Text(Cow::Borrowed(value))))
            }
            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(PortRef::Name(Text(Cow::Owned(value.to_owned()))))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(PortRef::Number(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
                i64::try_from(value).map(PortRef::Number).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(PortVisitor)
    }
}
