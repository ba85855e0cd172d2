// Where in a nested value a reader is, for messages: "meta.items[3].lock".

#pragma once

#include <string>
#include <string_view>

namespace energon::python {

/// Containers nested deeper than this are refused; the core sends 64 levels.
inline constexpr int kMostLevels = 60;

class FieldPath {
 public:
  class Level;

  /// Begins at the field `name`.
  void start(std::string_view name) { text_ = name; }

  /// Throws TypeError (nb::python_error): the field cannot be held, because of `what` and, if one
  /// is set, the exception of Python.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string text_;
  int levels_ = 0;
};

/// A container, while its values are read.
class FieldPath::Level {
 public:
  /// Refuses it if it is nested too deeply.
  explicit Level(FieldPath& path);
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  // What is read next.
  void at(std::size_t index);
  void at(std::string_view name);

 private:
  FieldPath& path_;
  const std::size_t size_;
};

}  // namespace energon::python
