// How values that only Python has are written as mappings of the core.
//
// Such a mapping begins with the field marks::name(), whose text says what it is:
//
//   "dict"         items: a list of lists [key, value]; for keys that are no texts
//   "numpy"        items: a tensor
//   "torch"        items: a tensor
//   "pickle"       items: bytes of pickle protocol 5, buffers: a list of bytes
//   "module:Name"  the fields of an object of that class: a dataclass, a dict, a named tuple
//
// Everything else is a value of the core as it is. A batch function of the core batches marked
// mappings field by field: the mark is then a list of texts, and a class has batched fields.
//
// The name of the field is drawn when the module is loaded, and workers inherit it: no file of a
// dataset can hold a mapping that is taken for a marked one, and so none is ever unpickled.

#pragma once

#include <string>
#include <string_view>

namespace energon::python::marks {

/// The name of the field that marks a mapping.
const std::string& name();

inline constexpr std::string_view kDict = "dict";
inline constexpr std::string_view kNumpy = "numpy";
inline constexpr std::string_view kTorch = "torch";
inline constexpr std::string_view kPickle = "pickle";
inline constexpr std::string_view kItems = "items";
inline constexpr std::string_view kBuffers = "buffers";

/// The field of a batch or sample that is no collection of fields, such as a tuple.
inline constexpr std::string_view kWhole = "__value__";

/// Whether `field` is one that the stages set: `__key__`, `__restore_key__`, `__subflavors__`,
/// `__sources__`.
bool is_origin(std::string_view field);

}  // namespace energon::python::marks
