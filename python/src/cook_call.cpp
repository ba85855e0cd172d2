#include "python/src/cook_call.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <optional>
#include <utility>

#include "energon/sample/buffer_allocator.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "python/src/buffer_object.h"
#include "python/src/gil.h"
#include "python/src/part_decoder.h"
#include "python/src/store_object.h"

namespace nb = nanobind;

namespace energon::python {

/// What Python holds. Threads of the function may share it.
class CookFiles {
 public:
  CookFiles(CookContext& context, const StorePaths& paths) : paths_(paths), context_(&context) {}

  std::vector<std::string> aux_names() const {
    std::vector<std::string> names;
    for (const auto& [name, unused] : paths_.aux) {
      names.push_back(name);
    }
    return names;
  }
  const std::string& path(const std::optional<std::string>& store) const {
    return store ? paths_.aux.at(*store) : paths_.primary;
  }

  /// A file of the store, absent: of the sample's own dataset; decoded, if there is a decoder.
  std::pair<SharedBytes, SampleSource> get(const std::optional<std::string>& store,
                                           const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    SharedBytes bytes = store ? context().aux(*store, name) : context().primary(name);
    std::vector<SampleSource> read = context().take_sources();
    sources_.insert(sources_.end(), read.begin(), read.end());
    return {std::move(bytes), std::move(read.back())};
  }
  LazyBytes lazy(const std::optional<std::string>& store, const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return store ? context().lazy_aux(*store, name) : context().lazy_primary(name);
  }
  std::optional<MediaMetadata> media(const std::optional<std::string>& store,
                                     const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return store ? context().aux_media(*store, name) : context().primary_media(name);
  }
  BufferAllocator& memory() {
    const MutexLock lock(mutex_);
    return context().call().memory();
  }
  std::vector<SampleSource> end() {
    const MutexLock lock(mutex_);
    context_ = nullptr;
    return std::move(sources_);
  }

 private:
  CookContext& context() ENERGON_REQUIRES(mutex_) {
    if (context_ == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a file store of a cook function was used after its call: read what is needed "
                  "in the function, or keep cache.get_lazy(store, name)");
    }
    return *context_;
  }

  const StorePaths paths_;
  Mutex mutex_;
  CookContext* context_ ENERGON_GUARDED_BY(mutex_);  // null after the call
  std::vector<SampleSource> sources_ ENERGON_GUARDED_BY(mutex_);
};

namespace {

/// What CookFiles::lazy() gave. Lives as long as Python wants.
struct LazyObject {
  LazyBytes bytes;
};

nb::object decoded(const PartDecoder* decoder, const std::string& name, const SharedBytes& bytes,
                   BufferAllocator& memory) {
  return decoder == nullptr ? bytes_to_python(bytes) : decoder->decode(name, bytes, memory);
}

nb::tuple cook_file(CookFiles& self, const std::optional<std::string>& store,
                    const std::string& name, const PartDecoder* decoder) {
  const auto [bytes, source] = self.get(store, name);
  return nb::make_tuple(decoded(decoder, name, bytes, self.memory()), source);
}

nb::object lazy_file(const LazyObject& self, const std::string& name, const PartDecoder* decoder) {
  const SharedBytes bytes = [&] {
    const ReleaseGil released;
    return self.bytes.get();
  }();
  return decoded(decoder, name, bytes, heap_memory());
}

}  // namespace

std::vector<StorePaths> store_paths_of(const std::vector<PipelineLeaf>& leaves) {
  std::vector<StorePaths> all;
  for (const PipelineLeaf& leaf : leaves) {
    StorePaths& paths = all.emplace_back(StorePaths{.primary = leaf.name, .aux = {}});
    for (const auto& [name, make_store] : leaf.aux) {
      paths.aux[name] = make_store()->path();
    }
  }
  return all;
}

CookCall::CookCall(CookContext& context, const StorePaths& paths)
    : files_(std::make_shared<CookFiles>(context, paths)) {}

nb::object CookCall::object() const { return nb::cast(files_); }

std::vector<SampleSource> CookCall::end() { return files_->end(); }

void bind_cook_call(nb::module_& module) {
  nb::class_<LazyObject>(module, "NativeLazy", "A file that the cache of a worker fetches.")
      .def("get", lazy_file, nb::arg("name"), nb::arg("decoder").none(),
           nb::sig("def get(self, name: str, decoder: PartDecoder | None) -> typing.Any"));
  nb::class_<CookFiles>(module, "CookFiles", "The files that a cook function may read.")
      .def_prop_ro("aux_names", &CookFiles::aux_names)
      .def("path", &CookFiles::path, nb::arg("store").none())
      .def("get", cook_file, nb::arg("store").none(), nb::arg("name"), nb::arg("decoder").none(),
           nb::sig("def get(self, store: str | None, name: str, decoder: PartDecoder | None) -> "
                   "tuple[typing.Any, SourceInfo]"),
           "A file of an auxiliary dataset; store=None: of the sample's own dataset.")
      .def(
          "lazy",
          [](CookFiles& self, const std::optional<std::string>& store, const std::string& name) {
            return LazyObject{self.lazy(store, name)};
          },
          nb::arg("store").none(), nb::arg("name"))
      .def(
          "media",
          [](CookFiles& self, const std::optional<std::string>& store, const std::string& name) {
            return media_to_python(self.media(store, name));
          },
          nb::arg("store").none(), nb::arg("name"),
          nb::sig("def media(self, store: str | None, name: str) -> tuple[str, str] | None"));
}

}  // namespace energon::python
