#include "tests/support/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

namespace energon::testing {

const std::vector<std::string>& golden_sets() {
  static const std::vector<std::string> sets = {"version_1"};
  return sets;
}

std::string golden_path(const std::string& set, const std::string& name) {
  return std::string(ENERGON_SOURCE_DIR) + "/tests/golden/" + set + "/" + name;
}

std::string read_golden(const std::string& set, const std::string& name) {
  const std::string path = golden_path(set, name);
  std::ifstream file(path, std::ios::binary);
  INFO("golden file " << path);
  REQUIRE(file.good());
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

void check_golden(const std::string& name, std::string_view content) {
  if (std::getenv("ENERGON_RENEW_GOLDEN") != nullptr) {
    const std::filesystem::path path = golden_path(newest_golden_set(), name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << content;
    REQUIRE(file.flush().good());
    return;
  }
  // Not CHECK of the strings: they are long and binary.
  INFO("golden file " << name << "; to change it, see HACKING.md");
  CHECK((read_golden(newest_golden_set(), name) == content));
}

void check_golden(const std::string& name, const std::vector<std::string>& lines) {
  std::string content;
  for (const std::string& line : lines) {
    content += line + "\n";
  }
  check_golden(name, content);
}

std::vector<std::string> golden_lines(const std::string& set, const std::string& name) {
  std::istringstream content(read_golden(set, name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(content, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace energon::testing
