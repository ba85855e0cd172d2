#include "python/src/marked_values.h"

#include <random>

#include <fmt/format.h>

namespace energon::python::marks {
namespace {

std::string drawn_name() {
  std::random_device random;
  return fmt::format("__class__{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

const std::string& name() {
  static const std::string drawn = drawn_name();
  return drawn;
}

bool is_origin(std::string_view field) {
  return field == "__key__" || field == "__restore_key__" || field == "__subflavors__" ||
         field == "__sources__";
}

}  // namespace energon::python::marks
