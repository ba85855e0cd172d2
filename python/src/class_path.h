// Classes of Python and the names of their fields.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <string_view>

namespace energon::python {

/// "module:Name" of the class of `object`. Several classes of functions may have one name: their
/// address, which a fork keeps, follows ("module:f.<locals>.Name@7f00").
std::string path_of_class(nanobind::handle object);

/// What makes up an object with fields: a dataclass or a named tuple.
struct ObjectParts {
  nanobind::object names;       ///< of its fields and other attributes
  bool has_undeclared = false;  ///< attributes that its class does not declare
};

/// The parts of `object` if they are all of it; nothing for an object of another kind, and for one
/// that holds more or is pickled in a way of its own.
std::optional<ObjectParts> parts_of(nanobind::handle object);

/// The names of the fields that a native batch takes of `object`; null if it has no fields.
nanobind::object field_names(nanobind::handle object);

/// Whether an object like it can be made of its fields: of a dict, its entries.
bool is_made_of_fields(nanobind::handle object);

/// A view of a str, valid as long as it; nothing if it has lone surrogates, which UTF-8 cannot
/// hold.
std::optional<std::string_view> utf8_of_text(nanobind::handle text);

}  // namespace energon::python
