/// The layout of a field: that which is named, or the type's own.
#[doc(hidden)]
#[macro_export]
macro_rules! layout_of {
    ($type:ty) => {
        $type
    };
    ($type:ty as $layout:ty) => {
        $layout
    };
    (@by $Name:ident) => {
        $Name
    };
    (@by $Name:ident $Form:ident<$W:ident>) => {
        $Form<$W>
    };
}

/// Gives a type that has a form the trait of messages.
#[doc(hidden)]
#[macro_export]
macro_rules! wire {
    ($Name:ty) => {
        impl $crate::core::Wire for $Name {
            #[inline]
            fn wire_len(&self) -> usize {
                <$Name as $crate::core::field::Field>::bytes(self)
            }

            #[inline]
            fn encode(
                &self,
                head: &mut $crate::core::field::bytes::BytesMut,
            ) -> Option<&$crate::core::Payload> {
                <$Name as $crate::core::field::Field>::put(self, head)
            }

            #[inline]
            fn decode(
                bytes: &mut $crate::core::field::bytes::Bytes,
            ) -> Result<$Name, $crate::core::DecodeError> {
                <$Name as $crate::core::field::Field>::take(bytes, "message")
            }
        }
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
///
/// After the fields of a struct or a variant, `; .. name` stands for the part of one of them that
/// follows them all, see [`Late`](super::Late). The form of `struct Name by Form<W: Bound>` is
/// that of the layout `Form<W>`, whose `W` the fields may name: one type with several forms.
#[doc(hidden)]
#[macro_export]
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident $(by $Form:ident<$W:ident: $Bound:path>)? {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $field:ident: $type:ty
                    $(as $layout:ty)? $(where $check:path)? $(= $computed:path)?
            ),* $(,)?
            $(; .. $late:ident)?
        }
        $(where $whole:path)?
    ) => {
        $(#[$meta])*
        $vis struct $Name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
        }

        $crate::core::field::fields! {
            impl $Name $(by $Form<$W: $Bound>)? {
                $( $field: $type $(as $layout)? $(where $check)? $(= $computed)?, )*
                $(; .. $late)?
            }
            $(where $whole)?
        }
    };
    (
        impl $Name:ident $(by $Form:ident<$W:ident: $Bound:path>)? {
            $(
                $field:ident: $type:ty
                    $(as $layout:ty)? $(where $check:path)? $(= $computed:path)?
            ),* $(,)?
            $(; .. $late:ident)?
        }
        $(where $whole:path)?
    ) => {
        impl$(<$W: $Bound>)? $crate::core::field::Field<$Name>
            for $crate::core::field::layout_of!(@by $Name $($Form<$W>)?)
        {
            const BYTES_MIN: usize = 0 $(
                + <$crate::core::field::layout_of!($type $(as $layout)?)
                    as $crate::core::field::Field<$type>>::BYTES_MIN
            )*;
            const HAS_PAYLOAD: bool = $crate::core::field::only_last(&[$(
                <$crate::core::field::layout_of!($type $(as $layout)?)
                    as $crate::core::field::Field<$type>>::HAS_PAYLOAD,
            )* $($crate::core::field::has_payload!($late))?]);

            #[inline]
            fn bytes(value: &$Name) -> usize {
                0 $(
                    + <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::bytes(&value.$field)
                )* $( + $crate::core::field::Late::late_bytes(&value.$late) )?
            }

            #[inline]
            fn put<'a>(
                value: &'a $Name,
                head: &mut impl $crate::core::field::bytes::BufMut,
            ) -> Option<&'a $crate::core::Payload> {
                let payload = None;
                $(
                    let rest = <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::put(&value.$field, head);
                    let payload = payload.or(rest);
                )*
                $(
                    let rest = $crate::core::field::Late::put_late(&value.$late, head);
                    let payload = payload.or(rest);
                )?
                payload
            }

            #[inline]
            fn take(
                bytes: &mut $crate::core::field::bytes::Bytes,
                _: &'static str,
            ) -> Result<$Name, $crate::core::DecodeError> {
                $(
                    let $field = <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::take(bytes, stringify!($field))?;
                    $( $check(&$field)?; )?
                )*
                #[allow(unused_mut, reason = "most structs have no field with a late part")]
                let mut taken = $Name { $($field),* };
                $( $whole(&taken)?; )?
                $( $crate::core::field::Late::take_late(&mut taken.$late, bytes)?; )?
                $($(
                    if taken.$field != $computed(&taken) {
                        return Err($crate::core::DecodeError::Checksum);
                    }
                )?)*
                Ok(taken)
            }

            #[inline]
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

            #[inline]
            fn layout(_: &str) -> String {
                [$(
                    <$crate::core::field::layout_of!($type $(as $layout)?)
                        as $crate::core::field::Field<$type>>::layout(stringify!($field)),
                )* $(concat!("values of ", stringify!($late)).to_owned())?].join(", ")
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $Name:ident
            $(by $Form:ident<$W:ident: $Bound:path>)? $(as $unknown:literal)?
        {
            $(
                $(#[$variant_meta:meta])*
                $tag:literal => $Variant:ident
                $({
                    $(
                        $(#[$field_meta:meta])*
                        $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)?
                    ),* $(,)?
                    $(; .. $late:ident)?
                })?
                $((
                    $(
                        $item:ident: $item_type:ty
                            $(as $item_layout:ty)? $(where $item_check:path)?
                    ),* $(,)?
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
            impl enum $Name $(by $Form<$W: $Bound>)? $(as $unknown)? {
                $(
                    $tag => $Variant
                    $({ $( $field: $type $(as $layout)? $(where $check)?, )* $(; .. $late)? })?
                    $(( $( $item: $item_type $(as $item_layout)? $(where $item_check)?, )* ))?,
                )*
            }
        }
    };
    (
        impl enum $Name:ident
            $(by $Form:ident<$W:ident: $Bound:path>)? $(as $unknown:literal)?
        {
            $(
                $tag:literal => $Variant:ident
                $({
                    $( $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)? ),* $(,)?
                    $(; .. $late:ident)?
                })?
                $((
                    $(
                        $item:ident: $item_type:ty
                            $(as $item_layout:ty)? $(where $item_check:path)?
                    ),* $(,)?
                ))?
            ),* $(,)?
        }
    ) => {
        impl$(<$W: $Bound>)? $crate::core::field::Field<$Name>
            for $crate::core::field::layout_of!(@by $Name $($Form<$W>)?)
        {
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
                    $($($crate::core::field::has_payload!($late))?)?
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
                        )*)? $($( + $crate::core::field::Late::late_bytes($late) )?)?
                    }
                )*}
            }

            #[inline]
            fn put<'a>(
                value: &'a $Name,
                head: &mut impl $crate::core::field::bytes::BufMut,
            ) -> Option<&'a $crate::core::Payload> {
                <Self as $crate::core::field::Tagged<$Name>>
                    ::put_tagged(value, head, |tag, head| head.put_u8(tag))
            }

            #[inline]
            fn take(
                bytes: &mut $crate::core::field::bytes::Bytes,
                _: &'static str,
            ) -> Result<$Name, $crate::core::DecodeError> {
                let tag = $crate::core::take_u8(bytes)?;
                <Self as $crate::core::field::Tagged<$Name>>::take_tagged(tag, bytes)
            }

            #[inline]
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
                                $crate::core::field::any_that(
                                    || <$crate::core::field::layout_of!(
                                        $item_type $(as $item_layout)?
                                    ) as $crate::core::field::Field<$item_type>>::any(_rng),
                                    |_any| { $( $item_check(_any)?; )? Ok(()) },
                                ),
                            )*
                        ))?
                ),*];
                variants[rng.below(variants.len() as u32) as usize](rng)
            }

            #[inline]
            fn layout(name: &str) -> String {
                let fields: &[&str] =
                    &[$( $($( stringify!($field), )*)? $($( stringify!($item), )*)? )*];
                match fields {
                    [] => format!("{name} 1"),
                    _ => {
                        let bytes_min = <Self as $crate::core::field::Field<$Name>>::BYTES_MIN;
                        format!("{name} {bytes_min} and more")
                    }
                }
            }
        }

        impl$(<$W: $Bound>)? $crate::core::field::Tagged<$Name>
            for $crate::core::field::layout_of!(@by $Name $($Form<$W>)?)
        {
            #[inline]
            fn put_tagged<'a, B: $crate::core::field::bytes::BufMut>(
                value: &'a $Name,
                head: &mut B,
                put_tag: impl FnOnce(u8, &mut B),
            ) -> Option<&'a $crate::core::Payload> {
                match value {$(
                    $Name::$Variant $({ $($field),* })? $(( $($item),* ))? => {
                        put_tag($tag, head);
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
                        $($(
                            let rest = $crate::core::field::Late::put_late($late, head);
                            let payload = payload.or(rest);
                        )?)?
                        payload
                    }
                )*}
            }

            #[inline]
            #[allow(unused_variables, reason = "an enum may have no fields")]
            fn take_tagged(
                tag: u8,
                bytes: &mut $crate::core::field::bytes::Bytes,
            ) -> Result<$Name, $crate::core::DecodeError> {
                Ok(match tag {
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
                                $( $item_check(&$item)?; )?
                            )*)?
                            $($(
                                let mut $late = $late;
                                $crate::core::field::Late::take_late(&mut $late, bytes)?;
                            )?)?
                            $Name::$Variant $({ $($field),* })? $(( $($item),* ))?
                        }
                    )*
                    tag => return Err($crate::core::field::fields!(@unknown tag $($unknown)?)),
                })
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
#[doc(hidden)]
#[macro_export]
macro_rules! messages {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Name:ident $(by $Form:ident<$W:ident: $Bound:path>)? {
            $(
                $(#[$variant_meta:meta])*
                $tag:literal => $Variant:ident
                $({
                    $(
                        $(#[$field_meta:meta])*
                        $field:ident: $type:ty $(as $layout:ty)? $(where $check:path)?
                    ),* $(,)?
                    $(; .. $late:ident)?
                })?
                $((
                    $(
                        $item:ident: $item_type:ty
                            $(as $item_layout:ty)? $(where $item_check:path)?
                    ),* $(,)?
                ))?
                [$($text:tt)*]
            ),* $(,)?
        }
    ) => {
        $crate::core::field::fields! {
            $(#[$meta])*
            $vis enum $Name $(by $Form<$W: $Bound>)? {
                $(
                    $(#[$variant_meta])*
                    $tag => $Variant
                    $({
                        $( $(#[$field_meta])* $field: $type $(as $layout)? $(where $check)?, )*
                        $(; .. $late)?
                    })?
                    $(( $( $item: $item_type $(as $item_layout)? $(where $item_check)?, )* ))?,
                )*
            }
        }

        $crate::core::field::messages!(@wire $Name $(by $Form)?);

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
            pub(crate) fn rows$(<$W: $Bound>)?() -> Vec<$crate::core::field::MessageRow> {
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
                        $($(concat!("values of ", stringify!($late)).to_owned())?)?
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
    (@wire $Name:ident) => {
        // Not more than one payload in a message, and nothing behind it.
        const _: bool = <$Name as $crate::core::field::Field>::HAS_PAYLOAD;

        $crate::core::field::wire!($Name);
    };
    // The protocol chooses the form.
    (@wire $Name:ident by $Form:ident) => {};
}

/// Of a part that follows all fields.
#[doc(hidden)]
#[macro_export]
macro_rules! has_payload {
    ($late:ident) => {
        true
    };
}

pub use {fields, has_payload, layout_of, messages, wire};
