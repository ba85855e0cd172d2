#include "python/src/held_object.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "python/src/gil.h"

namespace energon::python {
namespace {

constexpr std::string_view kHeld = "__held__";

class HeldObject final : public LazySource {
 public:
  explicit HeldObject(PyObject* object) : object_(std::make_shared<const OwnedObject>(object)) {}

  /// No bytes; their owner is the object.
  SharedBytes get() override { return {.view = {}, .owner = object_}; }
  std::string describe() const override { return "a Python object"; }

 private:
  const std::shared_ptr<const OwnedObject> object_;
};

}  // namespace

Mapping held_fields(PyObject* object) {
  Mapping fields;
  fields.emplace_back(kHeld, LazyBytes(std::make_shared<HeldObject>(object)));
  return fields;
}

PyObject* held_object(const Sample& sample) {
  if (sample.fields.size() != 1 || sample.fields.front().first != kHeld) {
    return nullptr;
  }
  const auto* lazy = std::get_if<LazyBytes>(&sample.fields.front().second.base());
  if (lazy == nullptr) {
    return nullptr;
  }
  return static_cast<const OwnedObject*>(lazy->get().owner.get())->get();
}

}  // namespace energon::python
