//! Structs that are read from maps alone. serde's derived code takes a list of the fields' values
//! for a struct, too, by their order: `spec: [[…]]` would pass for a pod's spec.

use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Reads structs as maps.
pub(crate) struct MapOnly<D>(pub(crate) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MapOnly<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Implements `Deserialize` by the derived code of structs marked `#[serde(remote = "Self")]`.
macro_rules! map_only {
    ($($name:ident<$a:lifetime>),+ $(,)?) => {$(
        impl<'de: $a, $a> serde::Deserialize<'de> for $name<$a> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::map_only::MapOnly(deserializer))
            }
        }
    )+};
    ($($name:ident),+ $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize($crate::map_only::MapOnly(deserializer))
            }
        }
    )+};
}
pub(crate) use map_only;
