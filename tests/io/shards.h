// Concise construction of small datasets for tests.

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/error.h"
#include "io/prepare/prepare.h"

namespace energon::testing {

/// A tar of `count` samples with the keys "000123" and so on from `first`; each with a part "txt"
/// that contains its key, and a part "bin" of two blocks.
std::string make_shard(int first, int count);

/// The same bytes as gzip.
std::string gzip(std::string_view bytes);

class SilentSink final : public ProgressSink {
 public:
  void on_progress(const PrepareProgress& progress) override { all.push_back(progress); }
  std::vector<PrepareProgress> all;
};

/// prepare() with the whole folder as "train", unless `options` specify a split.
PrepareReport prepare_folder(const std::string& path, const PrepareOptions& options = {});

/// The code and the message of the Error that `body` throws, or kInternal and "" if it throws none.
std::pair<ErrorCode, std::string> error_of(const std::function<void()>& body);

/// Paths below `folder`, sorted.
std::vector<std::string> files_below(const std::string& folder);

/// Adds `delta` to the byte at `offset` of a file.
void change_byte(const std::string& path, std::size_t offset, int delta = 1);

bool contains(std::string_view text, std::string_view part);

}  // namespace energon::testing
