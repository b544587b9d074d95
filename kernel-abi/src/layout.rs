// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause

//! Compile-time proof that a struct is laid out as its documentation says.

/// Asserts size, alignment and the offset of every field of a struct.
///
/// The pattern names each field once, so a field without an asserted offset does not compile.
macro_rules! assert_layout {
    ($ty:ident, size $size:literal, align $align:literal, {
        $($field:ident: $offset:literal),+ $(,)?
    }) => {
        const _: () = {
            assert!(size_of::<$ty>() == $size, concat!("size of ", stringify!($ty)));
            assert!(align_of::<$ty>() == $align, concat!("alignment of ", stringify!($ty)));
            $(assert!(
                core::mem::offset_of!($ty, $field) == $offset,
                concat!("offset of ", stringify!($ty), ".", stringify!($field))
            );)+
            let _every_field_is_named = |value: $ty| {
                let $ty { $($field: _),+ } = value;
            };
        };
    };
}

pub(crate) use assert_layout;
