#include "cli/job/flag_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace energon::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kFlags = {{
    {"num_workers", "--num-workers"},
    {"world_size", "--world-size"},
    {"logical_shards", "--logical-shards"},
    {"allow_uneven", "--uneven"},
    {"seed_offset", "--seed-offset"},
    {"batch_size", "--batch-size"},
    {"shuffle_buffer_size", "--shuffle-buffer-size"},
    {"max_samples_per_sequence", "--max-samples-per-sequence"},
    {"parallel_slices", "--parallel-slices"},
    {"shuffle_over_epochs", "--shuffle-over-epochs"},
    {"virtual_epoch_length", "--virtual-epoch-length"},
    {"prefetch_factor", "--prefetch-factor"},
    {"checkpoint_every_batches", "--checkpoint-every-batches"},
    {"checkpoint_history", "--checkpoint-history"},
    {"checkpoint_history_bytes", "--checkpoint-history-mib"},
    {"cache_dir", "--cache-dir"},
}};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What stands beside a name in a path, a key or a member of a configuration.
bool joins(char c) { return is_word(c) || c == '/' || c == '-' || c == '.' || c == '"'; }

}  // namespace

std::string with_flag_names(std::string_view message) {
  std::string result;
  std::size_t i = 0;
  while (i < message.size()) {
    const auto end = static_cast<std::size_t>(
        std::find_if_not(message.begin() + static_cast<std::ptrdiff_t>(i), message.end(), is_word) -
        message.begin());
    if (end == i) {
      result += message[i++];
      continue;
    }
    const std::string_view word = message.substr(i, end - i);
    const auto* const flag = std::find_if(kFlags.begin(), kFlags.end(),
                                          [&](const auto& entry) { return entry.first == word; });
    const bool is_part = (i > 0 && joins(message[i - 1])) ||
                         (end + 1 < message.size() && joins(message[end]) &&
                          joins(message[end + 1]));  // not the full stop of a sentence
    result += flag == kFlags.end() || is_part ? word : flag->second;
    i = end;
  }
  return result;
}

}  // namespace energon::cli
