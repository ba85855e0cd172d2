// Shared verbs of the tar tests: walk, read, scan, and expected failures.

#pragma once

#include <fcntl.h>

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/tar/archive_reader.h"
#include "io/tar/shard_scan.h"
#include "io/tar/tar_walker.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace energon::testing {

/// A TarMember that owns its name, without the fields that differ between readers by design.
struct WalkedMember {
  std::string name;
  MemberType type = MemberType::kRegular;
  bool sparse = false;
  std::uint64_t data_offset = 0;
  std::uint64_t size = 0;

  bool operator==(const WalkedMember&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const WalkedMember& member) {
  return out << printable(member.name) << " type " << static_cast<int>(member.type) << " ["
             << member.data_offset << ", +" << member.size << ")"
             << (member.sparse ? " sparse" : "");
}

template <class Walker>
std::vector<WalkedMember> all_members(Walker&& walker) {
  std::vector<WalkedMember> result;
  while (const std::optional<TarMember> member = walker.next()) {
    result.push_back({std::string(member->name), member->type, member->sparse, member->data_offset,
                      member->size});
  }
  return result;
}

inline std::vector<WalkedMember> walk(std::string_view tar) {
  return all_members(TarWalker(as_bytes(tar), 0, ZeroBlock::kEndsArchive));
}

template <class Walker>
std::vector<std::string> names_of(Walker&& walker) {
  std::vector<std::string> names;
  for (const WalkedMember& member : all_members(walker)) {
    names.push_back(member.name);
  }
  return names;
}

/// The Error that `action` throws; the test fails if there is none.
template <class Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return Error(ErrorCode::kInternal, "no error");
}

inline ShardScan scan(std::string_view tar, const ShardScanOptions& options = {}) {
  const TempDir folder;
  const FileSource file(folder.write("shard.tar", tar));
  return scan_shard(file, options);
}

inline Error scan_error(std::string_view tar, const ShardScanOptions& options = {}) {
  return error_of([&] { scan(tar, options); });
}

inline constexpr ShardScanOptions kStrictScan{.strictness = ScanStrictness::kStrict};

/// A sample of two parts, and its end.
inline TarBuilder one_sample() { return TarBuilder().file("a.txt", "hello").file("a.cls", "7"); }
inline constexpr std::uint64_t kAfterOneSample = 2048;

/// A scan refuses `tar` as corrupt, with this offset and reason.
inline void check_refused(const TarBuilder& tar, std::uint64_t offset, const std::string& reason) {
  const Error error = scan_error(tar.text());
  CHECK(error.code() == ErrorCode::kCorruptData);
  CHECK(error.context().byte_offset == offset);
  CHECK(error.context().path);
  CHECK_THAT(error.what(), Catch::Contains(reason));
}

inline std::string only_warning(const ShardScan& scan) {
  REQUIRE(scan.warnings.size() == 1);
  return scan.warnings.front();
}

/// The samples as "key(part part) key(part)".
inline std::string outline(const ShardScan& scan) {
  std::string result;
  for (const ScannedSample& sample : scan.samples) {
    result += (result.empty() ? "" : " ") + sample.key + "(";
    for (const ScannedPart& part : sample.parts) {
      result += (&part == &sample.parts.front() ? "" : " ") + part.name;
    }
    result += ")";
  }
  return result;
}

inline UniqueFd create_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

}  // namespace energon::testing
