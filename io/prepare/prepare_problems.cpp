#include "io/prepare/prepare_problems.h"

#include <fmt/format.h>

namespace energon {

void PrepareProblems::add(std::int64_t shard, std::string_view name, std::string_view text) {
  ++count_;
  if (named_.size() < kMostNamed) {
    named_.emplace(SamplePosition{.tar_file_id = shard},
                   fmt::format("{}: {}", printable(name), text));
  }
}

void PrepareProblems::add(std::int64_t shard, std::string_view name, const Error& error) {
  if (error.code() == ErrorCode::kIo || error.code() == ErrorCode::kInternal) {
    throw error;
  }
  const ErrorContext& where = error.context();
  add(shard, name,
      fmt::format(
          "{}{}{}", error.message(),
          where.byte_offset ? fmt::format(" [byte {}]", *where.byte_offset) : "",
          where.sample_key ? fmt::format(" [sample {}]", printable(*where.sample_key)) : ""));
}

void PrepareProblems::add(const RepeatedKeys& keys, const std::vector<std::string>& names) {
  count_ += static_cast<std::size_t>(keys.count);
  for (const RepeatedKey& repeated : keys.named) {
    named_.emplace(
        repeated.again,
        fmt::format("the key '{}' occurs twice: in {} (sample {}) and in {} (sample {}); keys "
                    "must differ in a whole dataset",
                    printable(repeated.key),
                    printable(names[static_cast<std::size_t>(repeated.first.tar_file_id)]),
                    repeated.first.sample_index,
                    printable(names[static_cast<std::size_t>(repeated.again.tar_file_id)]),
                    repeated.again.sample_index));
  }
}

void PrepareProblems::raise(const std::string& path) const {
  std::string text;
  std::size_t left = kMostNamed;
  for (auto problem = named_.begin(); problem != named_.end() && left > 0; ++problem, --left) {
    text += fmt::format("\n  {}", problem->second);
  }
  const std::string more =
      count_ > kMostNamed ? fmt::format("\n  and {} more", count_ - kMostNamed) : "";
  throw Error(ErrorCode::kCorruptData,
              fmt::format("nothing was prepared, because of {} problem{}:{}{}\n", count_,
                          count_ == 1 ? "" : "s", text, more),
              {.path = path});
}

}  // namespace energon
