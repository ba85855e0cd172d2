#include "tests/energon/process/process_fixture.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "io/concurrency.h"

namespace energon::testing {
namespace {

std::vector<std::string> list(const char* folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ProcessFixture::Resources ProcessFixture::count() {
  Resources result{list("/proc/self/fd").size(), list("/proc/self/task").size(), 0, {}};
  for (const std::string& name : list("/dev/shm")) {
    if (name.find("energon") != std::string::npos) {
      result.names.push_back(name);
    }
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    result.mappings += line.find("memfd:energon") != std::string::npos ? 1 : 0;
  }
  return result;
}

ProcessFixture::ProcessFixture() : before_(count()) {}

ProcessFixture::~ProcessFixture() {
  CHECK(eventually([this] { return count() == before_; }));
  const Resources after = count();
  CHECK(after.descriptors == before_.descriptors);
  CHECK(after.threads == before_.threads);
  CHECK(after.mappings == before_.mappings);
  CHECK(eventually([] { return no_children(); }));
}

bool no_children(bool reap) {
  siginfo_t info{};
  for (;;) {
    info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | (reap ? 0 : WNOWAIT)) != 0) {
      return errno == ECHILD;
    }
    if (info.si_pid == 0 || !reap) {
      return false;
    }
  }
}

}  // namespace energon::testing
