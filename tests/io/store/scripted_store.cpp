#include "tests/io/store/scripted_store.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "io/error.h"

namespace energon::testing {

struct ScriptedStore::Script {
  const Files files;

  std::mutex mutex = {};
  std::condition_variable changed = {};
  // Guarded by mutex.
  std::set<std::string> held = {};
  std::vector<std::string> reads = {};
  int opened = 0;
  bool was_shared = false;
};

class ScriptedStore::Store final : public FileStore {
 public:
  explicit Store(Script& script) : FileStore("scripted"), script_(script) {}

  FileStoreItem get(std::string_view name) override {
    const std::string key(name);
    std::unique_lock lock(script_.mutex);
    script_.was_shared |= std::exchange(is_used_, true);
    script_.reads.push_back(key);
    script_.changed.notify_all();
    script_.changed.wait(lock, [&] { return !script_.held.contains(key); });
    is_used_ = false;
    const auto file = script_.files.find(key);
    if (file == script_.files.end()) {
      throw Error(ErrorCode::kNotFound, "no such file", {.path = path(), .sample_key = key});
    }
    const auto content = std::make_shared<const std::string>(file->second);
    return {.bytes = {as_bytes(*content), content},
            .source_path = "scripted/" + key,
            .shard = "shard of " + key,
            .sample_index = 7,
            .range = {.offset = 512, .size = content->size()}};
  }

 private:
  Script& script_;
  bool is_used_ = false;  // guarded by the script's mutex
};

ScriptedStore::ScriptedStore(Files files) : script_(new Script{.files = std::move(files)}) {}

ScriptedStore::~ScriptedStore() = default;

StoreFactory ScriptedStore::factory() {
  return [script = script_.get()] {
    const std::lock_guard lock(script->mutex);
    ++script->opened;
    return std::make_unique<Store>(*script);
  };
}

void ScriptedStore::hold(const std::string& name) {
  const std::lock_guard lock(script_->mutex);
  script_->held.insert(name);
}

void ScriptedStore::let_go(const std::string& name) {
  const std::lock_guard lock(script_->mutex);
  script_->held.erase(name);
  script_->changed.notify_all();
}

void ScriptedStore::wait_for_read(const std::string& name) {
  std::unique_lock lock(script_->mutex);
  script_->changed.wait(lock, [&] { return std::ranges::count(script_->reads, name) > 0; });
}

std::vector<std::string> ScriptedStore::reads() const {
  const std::lock_guard lock(script_->mutex);
  return script_->reads;
}

int ScriptedStore::opened() const {
  const std::lock_guard lock(script_->mutex);
  return script_->opened;
}

bool ScriptedStore::was_shared() const {
  const std::lock_guard lock(script_->mutex);
  return script_->was_shared;
}

}  // namespace energon::testing
