#include "python/src/store_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/store/file_store.h"
#include "python/src/buffer_object.h"
#include "python/src/interpreter.h"
#include "python/src/item_maker.h"
#include "python/src/module.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

AuxReference::Kind kind_called(const std::string& name) {
  if (name == "webdataset") {
    return AuxReference::Kind::kWebdataset;
  }
  if (name == "folder") {
    return AuxReference::Kind::kFolder;
  }
  if (name == "jsonl") {
    return AuxReference::Kind::kJsonl;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("a store must be 'webdataset', 'folder' or 'jsonl', not '{}'", name));
}

/// A FileStore that threads may share, and that a forked child reopens, because a database
/// connection must not cross a fork.
class StoreObject {
 public:
  StoreObject(const std::string& kind, std::string path, std::optional<std::string> cache_dir)
      : reference_{.kind = kind_called(kind), .path = std::move(path)},
        cache_dir_(std::move(cache_dir)) {}

  const std::string& path() const { return reference_.path; }

  FileStoreItem get(const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return opened().get(name);
  }
  std::optional<MediaMetadata> media(const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return opened().get_media_metadata(name);
  }

 private:
  FileStore& opened() ENERGON_REQUIRES(mutex_) {
    const pid_t process = ::getpid();
    if (store_ == nullptr || process != process_) {
      static_cast<void>(store_.release());  // it belongs to the parent
      store_ = make_file_store(reference_, cache_dir_);
      process_ = process;
    }
    return *store_;
  }

  const AuxReference reference_;
  const std::optional<std::string> cache_dir_;
  Mutex mutex_;
  std::unique_ptr<FileStore> store_ ENERGON_GUARDED_BY(mutex_);
  pid_t process_ ENERGON_GUARDED_BY(mutex_) = 0;
};

nb::tuple store_file(StoreObject& self, const std::string& name) {
  FileStoreItem item = self.get(name);
  const SampleSource source{.shard = std::make_shared<const SourceShard>(
                                SourceShard{.dataset_path = self.path(), .shard_name = item.shard}),
                            .index_in_shard = item.sample_index,
                            .bytes = item.range};
  return nb::make_tuple(bytes_to_python(item.bytes), source_to_python(source));
}

}  // namespace

nb::object media_to_python(const std::optional<MediaMetadata>& media) {
  if (!media) {
    return nb::none();
  }
  return nb::make_tuple(std::string(to_string(media->kind)), to_media_json(*media));
}

void bind_stores(nb::module_& module) {
  nb::class_<StoreObject>(module, "NativeStore", "The native half of the file stores.")
      .def(nb::init<const std::string&, std::string, std::optional<std::string>>(), nb::arg("kind"),
           nb::arg("path"), nb::arg("cache_dir").none() = nb::none())
      .def_prop_ro("path", &StoreObject::path)
      .def("get", store_file, nb::arg("name"),
           nb::sig("def get(self, name: str) -> tuple[typing.Any, typing.Any]"))
      .def(
          "media",
          [](StoreObject& self, const std::string& name) {
            return media_to_python(self.media(name));
          },
          nb::arg("name"), nb::sig("def media(self, name: str) -> tuple[str, str] | None"));
}

}  // namespace energon::python
