// A file store whose reads wait until the test lets them continue.
//
//   ScriptedStore store(Files{{"a", "content"}});
//   store.hold("a");
//   const auto file = cache.get_lazy("s", store.factory(), "a");
//   store.wait_for_read("a");  // a thread is in it now
//   store.let_go("a");

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/store/file_store.h"

namespace energon::testing {

/// Content by name.
using Files = std::map<std::string, std::string>;

/// Thread-safe; must outlive the stores that its factory opens.
class ScriptedStore {
 public:
  explicit ScriptedStore(Files files);
  ~ScriptedStore();
  ScriptedStore(const ScriptedStore&) = delete;
  ScriptedStore& operator=(const ScriptedStore&) = delete;

  StoreFactory factory();

  /// Reads of `name` wait from now on.
  void hold(const std::string& name);
  void let_go(const std::string& name);
  /// Waits until a read of `name` has begun.
  void wait_for_read(const std::string& name);

  /// Names of all reads that have begun, in their order.
  std::vector<std::string> reads() const;
  /// Stores that were opened.
  int opened() const;
  /// Whether two threads were ever in one store.
  bool was_shared() const;

 private:
  class Store;
  struct Script;
  std::unique_ptr<Script> script_;
};

}  // namespace energon::testing
