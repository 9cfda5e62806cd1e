/// The layout of a field: that which is named, or the type's own.
macro_rules! layout_of {
    ($type:ty) => {
        $type
    };
    ($type:ty as $layout:ty) => {
        $layout
    };
}

/// Declares a part of messages: a struct, or an enum of which each variant begins with its tag.
///
/// ```text
/// fields! {
///     /// How far a member got.
///     #[derive(Clone, Debug, PartialEq)]
///     pub struct Reached {
///         /// Its rank.
///         pub rank: u16,
///         /// The number of its last packet.
///         pub last: u64 where is_seq,
///     }
///     where Reached::is_known
/// }
/// ```
///
/// The last line is a check of all fields together, once they are read. `impl Name { .. }` in place
/// of `struct` gives a type its form that is declared elsewhere, with its fields in wire order. An
/// enum may say how it is called, `enum Refusal as "refusal"`: then an unknown tag is a field out
/// of range.
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $field:ident: $type:ty
                    $(as $layout:ty)? $(where $check:path)? $(= $computed:path)?
            ),* $(,)?
        }
        $(where $whole:path)?
    ) => {
        $(#[$meta])*
        $vis struct $Name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
        }

        $crate::core::field::fields! {
            impl $Name {
                $( $field: $type $(as $layout)? $(where $check)? $(= $computed)?, )*
            }
            $(where $whole)?
        }
    };
    (
        impl $Name:ident {
            $(
                $field:ident: $type:ty
                    $(as $layout:ty)? $(where $check:path)? $(= $computed:path)?
            ),* $(,)?
        }
        $(where $whole:path)?
    ) => {
        impl $crate::core::field::Field for $Name {
            const BYTES_MIN: usize = 0 $(
                + <$crate::core::field::layout_of!($type $(as $layout)?)
                    as $crate::core::field::Field<$type>>::BYTES_MIN
            )*;
            const HAS_PAYLOAD: bool = $crate::core::field::only_last(&[$(
                <$crate::core::field::layout_of!($type $(as $layout)?)
                    as $crate::core::field::Field<$type>>::HAS_PAYLOAD,
            )*]);

            #[inline]
            fn bytes(value: &$Name) -> usize {
                0 $(
                    + <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::bytes(&value.$field)
                )*
            }

            #[inline]
            fn put<'a>(
                value: &'a $Name,
                head: &mut impl bytes::BufMut,
            ) -> Option<&'a $crate::core::Payload> {
                let payload = None;
                $(
                    let rest = <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::put(&value.$field, head);
                    let payload = payload.or(rest);
                )*
                payload
            }

            #[inline]
            fn take(
                bytes: &mut bytes::Bytes,
                _: &'static str,
            ) -> Result<$Name, $crate::core::DecodeError> {
                $(
                    let $field = <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::take(bytes, stringify!($field))?;
                    $( $check(&$field)?; )?
                )*
                let taken = $Name { $($field),* };
                $( $whole(&taken)?; )?
                $($(
                    if taken.$field != $computed(&taken) {
                        return Err($crate::core::DecodeError::Checksum);
                    }
                )?)*
                Ok(taken)
            }

            #[cfg(test)]
            fn any(rng: &mut $crate::core::Rng) -> $Name {
                #[allow(unused_mut, reason = "most structs have no field that is computed")]
                let mut any = $crate::core::field::any_that(
                    || $Name {
                        $(
                            $field: $crate::core::field::any_that(
                                || <$crate::core::field::layout_of!($type $(as $layout)?)
                                    as $crate::core::field::Field<$type>>::any(rng),
                                |_any| { $( $check(_any)?; )? Ok(()) },
                            ),
                        )*
                    },
                    |_any| { $( $whole(_any)?; )? Ok(()) },
                );
                $($( any.$field = $computed(&any); )?)*
                any
            }

            #[cfg(test)]
            fn layout(_: &str) -> String {
                [$(
                    <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::layout(stringify!($field))
                ),*].join(", ")
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $Name:ident $(as $unknown:literal)? {
            $(
                $(#[$variant_meta:meta])*
                $tag:literal => $Variant:ident
                $({
                    $(
                        $(#[$field_meta:meta])*
                        $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)?
                    ),* $(,)?
                })?
                $((
                    $( $item:ident: $item_type:ty $(as $item_layout:ty)? ),* $(,)?
                ))?
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $Name {
            $(
                $(#[$variant_meta])*
                $Variant $({ $( $(#[$field_meta])* $field: $type, )* })? $(( $($item_type),* ))?,
            )*
        }

        $crate::core::field::fields! {
            impl enum $Name $(as $unknown)? {
                $(
                    $tag => $Variant
                    $({ $( $field: $type $(as $layout)? $(where $check)?, )* })?
                    $(( $( $item: $item_type $(as $item_layout)?, )* ))?,
                )*
            }
        }
    };
    (
        impl enum $Name:ident $(as $unknown:literal)? {
            $(
                $tag:literal => $Variant:ident
                $({
                    $( $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)? ),* $(,)?
                })?
                $((
                    $( $item:ident: $item_type:ty $(as $item_layout:ty)? ),* $(,)?
                ))?
            ),* $(,)?
        }
    ) => {
        impl $crate::core::field::Field for $Name {
            const BYTES_MIN: usize = 1 + $crate::core::field::least(&[$(
                0 $($(
                    + <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::BYTES_MIN
                )*)? $($(
                    + <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                        as $crate::core::field::Field<$item_type>>::BYTES_MIN
                )*)?
            ),*]);
            const HAS_PAYLOAD: bool = false $(
                | $crate::core::field::only_last(&[
                    $($(
                        <$crate::core::field::layout_of!($type $(as $layout)?)
                            as $crate::core::field::Field<$type>>::HAS_PAYLOAD,
                    )*)?
                    $($(
                        <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                            as $crate::core::field::Field<$item_type>>::HAS_PAYLOAD,
                    )*)?
                ])
            )*;

            #[inline]
            fn bytes(value: &$Name) -> usize {
                1 + match value {$(
                    $Name::$Variant $({ $($field),* })? $(( $($item),* ))? => {
                        0 $($(
                            + <$crate::core::field::layout_of!($type $(as $layout)?)
                                as $crate::core::field::Field<$type>>::bytes($field)
                        )*)? $($(
                            + <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                                as $crate::core::field::Field<$item_type>>::bytes($item)
                        )*)?
                    }
                )*}
            }

            #[inline]
            fn put<'a>(
                value: &'a $Name,
                head: &mut impl bytes::BufMut,
            ) -> Option<&'a $crate::core::Payload> {
                match value {$(
                    $Name::$Variant $({ $($field),* })? $(( $($item),* ))? => {
                        head.put_u8($tag);
                        let payload = None;
                        $($(
                            let rest = <$crate::core::field::layout_of!($type $(as $layout)?)
                                as $crate::core::field::Field<$type>>::put($field, head);
                            let payload = payload.or(rest);
                        )*)?
                        $($(
                            let rest =
                                <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                                    as $crate::core::field::Field<$item_type>>::put($item, head);
                            let payload = payload.or(rest);
                        )*)?
                        payload
                    }
                )*}
            }

            #[inline]
            fn take(
                bytes: &mut bytes::Bytes,
                _: &'static str,
            ) -> Result<$Name, $crate::core::DecodeError> {
                Ok(match $crate::core::take_u8(bytes)? {
                    $(
                        $tag => {
                            $($(
                                let $field = <$crate::core::field::layout_of!($type $(as $layout)?)
                                    as $crate::core::field::Field<$type>>
                                    ::take(bytes, stringify!($field))?;
                                $( $check(&$field)?; )?
                            )*)?
                            $($(
                                let $item =
                                    <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                                        as $crate::core::field::Field<$item_type>>
                                        ::take(bytes, stringify!($item))?;
                            )*)?
                            $Name::$Variant $({ $($field),* })? $(( $($item),* ))?
                        }
                    )*
                    tag => return Err($crate::core::field::fields!(@unknown tag $($unknown)?)),
                })
            }

            #[cfg(test)]
            fn any(rng: &mut $crate::core::Rng) -> $Name {
                let variants: &[fn(&mut $crate::core::Rng) -> $Name] = &[$(
                    |_rng| $Name::$Variant
                        $({
                            $(
                                $field: $crate::core::field::any_that(
                                    || <$crate::core::field::layout_of!($type $(as $layout)?)
                                        as $crate::core::field::Field<$type>>::any(_rng),
                                    |_any| { $( $check(_any)?; )? Ok(()) },
                                ),
                            )*
                        })?
                        $((
                            $(
                                <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                                    as $crate::core::field::Field<$item_type>>::any(_rng),
                            )*
                        ))?
                ),*];
                variants[rng.below(variants.len() as u32) as usize](rng)
            }

            #[cfg(test)]
            fn layout(name: &str) -> String {
                let fields: &[&str] =
                    &[$( $($( stringify!($field), )*)? $($( stringify!($item), )*)? )*];
                match fields {
                    [] => format!("{name} 1"),
                    _ => format!("{name} {} and more", Self::BYTES_MIN),
                }
            }
        }
    };
    (@unknown $tag:ident) => { $crate::core::DecodeError::UnknownTag($tag) };
    (@unknown $tag:ident $field:literal) => {
        $crate::core::DecodeError::OutOfRange { field: $field, value: $tag.into() }
    };
}

/// Declares what the nodes of a protocol send each other: an enum with a tag of one byte.
///
/// ```text
/// messages! {
///     /// What members send to each other.
///     #[derive(Clone, Debug, PartialEq)]
///     pub enum Message {
///         /// A block.
///         0 => Data(block: Block) ["{block}"],
///         /// How far the blocks have come.
///         1 => Ack {
///             /// The view.
///             view: ViewId,
///             /// Members that have all of them.
///             members: Vec<u32> as List<MEMBERS_MAX>,
///         } ["ack {view} of {}", members.len()],
///     }
/// }
/// ```
///
/// A variant's tag is its first byte. The text in brackets is its line in a trace, with the fields
/// in scope. A new field is one line: type, length, encoding, decoding and generator follow.
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Name:ident {
            $(
                $(#[$variant_meta:meta])*
                $tag:literal => $Variant:ident
                $({
                    $(
                        $(#[$field_meta:meta])*
                        $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)?
                    ),* $(,)?
                })?
                $((
                    $( $item:ident: $item_type:ty $(as $item_layout:ty)? ),* $(,)?
                ))?
                [$($text:tt)*]
            ),* $(,)?
        }
    ) => {
        $crate::core::field::fields! {
            $(#[$meta])*
            $vis enum $Name {
                $(
                    $(#[$variant_meta])*
                    $tag => $Variant
                    $({
                        $( $(#[$field_meta])* $field: $type $(as $layout)? $(where $check)?, )*
                    })?
                    $(( $( $item: $item_type $(as $item_layout)?, )* ))?,
                )*
            }
        }

        // Not more than one payload in a message, and nothing behind it.
        const _: bool = <$Name as $crate::core::field::Field>::HAS_PAYLOAD;

        impl $crate::core::Wire for $Name {
            #[inline]
            fn wire_len(&self) -> usize {
                <$Name as $crate::core::field::Field>::bytes(self)
            }

            #[inline]
            fn encode(&self, head: &mut bytes::BytesMut) -> Option<&$crate::core::Payload> {
                <$Name as $crate::core::field::Field>::put(self, head)
            }

            #[inline]
            fn decode(bytes: &mut bytes::Bytes) -> Result<$Name, $crate::core::DecodeError> {
                <$Name as $crate::core::field::Field>::take(bytes, "message")
            }
        }

        /// A line for a trace: what it is, and its numbers.
        impl std::fmt::Display for $Name {
            #[allow(unused_variables, reason = "a line names only the fields that matter")]
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {$(
                    $Name::$Variant $({ $($field),* })? $(( $($item),* ))? => {
                        write!(f, $($text)*)
                    }
                )*}
            }
        }

        #[cfg(test)]
        impl $Name {
            /// The rows of the documentation's tables of messages.
            pub(crate) fn rows() -> Vec<$crate::core::field::MessageRow> {
                vec![$({
                    let fields: Vec<String> = vec![
                        $($(
                            <$crate::core::field::layout_of!($type $(as $layout)?)
                                as $crate::core::field::Field<$type>>::layout(stringify!($field)),
                        )*)?
                        $($(
                            <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                                as $crate::core::field::Field<$item_type>>
                                ::layout(stringify!($item)),
                        )*)?
                    ];
                    let bytes_min = 1 $($(
                        + <$crate::core::field::layout_of!($type $(as $layout)?)
                            as $crate::core::field::Field<$type>>::BYTES_MIN
                    )*)? $($(
                        + <$crate::core::field::layout_of!($item_type $(as $item_layout)?)
                            as $crate::core::field::Field<$item_type>>::BYTES_MIN
                    )*)?;
                    $crate::core::field::MessageRow {
                        tag: $tag,
                        name: stringify!($Variant),
                        fields: fields.join(", "),
                        bytes_min,
                    }
                }),*]
            }
        }
    };
}

pub(crate) use {fields, layout_of, messages};
