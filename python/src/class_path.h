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

/// The names of the fields of an object that is a dataclass or a named tuple; null for others.
nanobind::object field_names(nanobind::handle object);

/// A view of a str, valid as long as it; nothing if it has lone surrogates, which UTF-8 cannot
/// hold.
std::optional<std::string_view> utf8_of_text(nanobind::handle text);

}  // namespace energon::python
