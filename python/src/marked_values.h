// The encoding of Python values as values of the core.
//
// An object with fields (a dataclass, a dict, a named tuple) is a mapping that begins with the
// field marks::name(), whose value is its class: "module:Name". A batch function of the core
// batches such mappings field by field: the mark becomes a list of strings.
//
// Other objects are sealed: a tuple that begins with marks::name() and a kind. Batch functions
// treat a tuple as one value.
//
//   "dict"      a list of lists [key, value], for keys that are not strings
//   "numpy"     a tensor
//   "torch"     a tensor
//   "pickle"    bytes of pickle protocol 5, and a list of its buffers
//   "instance"  a mapping, marked or not, that must not be batched field by field
//
// All other values are unchanged values of the core.
//
// The name is drawn at random when the module is loaded, and workers inherit it. So no file of a
// dataset can contain a value that passes for a marked value, and data from files is never
// unpickled. The name must not appear in messages.

#pragma once

#include <string>
#include <string_view>

#include "energon/sample/sample.h"
#include "wrappers/batching/batch_functions.h"

namespace energon::python::marks {

/// The name of the field that marks a mapping, and the first item of a sealed value.
const std::string& name();

inline constexpr std::string_view kDict = "dict";
inline constexpr std::string_view kNumpy = "numpy";
inline constexpr std::string_view kTorch = "torch";
inline constexpr std::string_view kPickle = "pickle";
inline constexpr std::string_view kInstance = "instance";

/// The mark of dicts.
inline constexpr std::string_view kDictClass = "builtins:dict";

/// A sealed value of this kind.
Value sealed(std::string_view kind, Value content);

/// The kind of a sealed value; null for other tuples. The content is items[2], and for a pickle
/// also items[3].
const std::string* kind_of_sealed(const Tuple& tuple);

/// Wraps `batch`, a batch function of the core, for values that Python functions returned. The
/// result throws Error (kInvalidArgument) for samples of several classes, and lists fields that
/// hold objects of several classes.
BatchFunction batch_of_objects(BatchFunction batch);

/// The class in the mark of `fields`, for a batch the class of the first sample; null without a
/// mark.
const std::string* class_of(const Mapping& fields);

/// The only field of a batch or sample that is not a collection of fields, such as a tuple.
inline constexpr std::string_view kWhole = "__value__";

inline constexpr std::string_view kKey = "__key__";

/// Whether the stages set `field`: `__key__`, `__restore_key__`, `__subflavors__`, `__sources__`.
bool is_origin(std::string_view field);

}  // namespace energon::python::marks
