#include "energon/checkpoint/certificate.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/byte_codec.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::size_t kMostNamed = 20;  // micro batches or logical shards in an error

// Whether micro batch `number` cannot exist because its logical shard has ended the epoch.
bool is_after_end(const DeliveredEpoch& epoch, std::int64_t number) {
  const auto ended = epoch.ended.find(number % epoch.logical_shards);
  return ended != epoch.ended.end() && number / epoch.logical_shards >= ended->second;
}

// Whether one of the micro batches [begin, end) may still be delivered. The first `logical_shards`
// of them cover all logical shards.
bool has_more(const DeliveredEpoch& epoch, std::int64_t begin, std::int64_t end) {
  for (std::int64_t number = begin; number < std::min(end, begin + epoch.logical_shards);
       ++number) {
    if (!is_after_end(epoch, number)) {
      return true;
    }
  }
  return false;
}

// The last micro batch that was delivered or must have been; -1 if there is none.
std::int64_t last_micro_batch(const DeliveredEpoch& epoch) {
  std::int64_t last = epoch.micro_batches.empty() ? -1 : epoch.micro_batches.rbegin()->first;
  for (const auto& [shard, count] : epoch.ended) {
    last = std::max(last, count == 0 ? -1 : (count - 1) * epoch.logical_shards + shard);
  }
  return last;
}

// The number of missing micro batches from `first` on.
std::int64_t count_missing(const DeliveredEpoch& epoch, std::int64_t first) {
  const std::int64_t shards = epoch.logical_shards;
  const std::int64_t last = last_micro_batch(epoch);
  std::int64_t count = last - first + 1 - std::ssize(epoch.micro_batches);
  for (const auto& [shard, turns] : epoch.ended) {
    const std::int64_t first_turn = first > shard ? (first - shard - 1) / shards + 1 : 0;
    const std::int64_t turns_to_last = last < shard ? 0 : (last - shard) / shards + 1;
    count -= std::max<std::int64_t>(0, turns_to_last - std::max(turns, first_turn));
  }
  return count;
}

std::string list_first(const std::vector<std::int64_t>& numbers, std::int64_t count) {
  return fmt::format("{}{}", fmt::join(numbers, ", "), std::ssize(numbers) < count ? ", …" : "");
}

}  // namespace

void extend(Certificate& certificate, const Sample& batch) {
  ByteWriter link;
  auto source = batch.sources.begin();
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    link.clear();
    link.u64(certificate.digest);
    link.text(batch.keys[i]);
    for (; source != batch.sources.end() && source->sample == i; ++source) {
      link.u64(source->checksum);
    }
    certificate.digest = xxh3_64(as_bytes(link.bytes()));
    ++certificate.samples;
  }
}

Certificate certificate_of_batch(const Sample& batch) {
  Certificate certificate;
  extend(certificate, batch);
  return certificate;
}

Certificate certificate_of_global_batch(std::span<const Certificate> micro_batches) {
  ByteWriter bytes;
  Certificate sum;
  for (const Certificate& micro_batch : micro_batches) {
    bytes.u64(micro_batch.digest);
    bytes.i64(micro_batch.samples);
    sum.samples += micro_batch.samples;
  }
  sum.digest = xxh3_64(as_bytes(bytes.bytes()));
  return sum;
}

Certificate combine(std::span<const CertificatePart> parts) {
  std::vector<CertificatePart> sorted(parts.begin(), parts.end());
  std::sort(sorted.begin(), sorted.end(), [](const CertificatePart& a, const CertificatePart& b) {
    return a.logical_shard < b.logical_shard;
  });
  ByteWriter bytes;
  Certificate sum;
  for (const CertificatePart& part : sorted) {
    bytes.i64(part.logical_shard);
    bytes.u64(part.certificate.digest);
    bytes.i64(part.certificate.samples);
    sum.samples += part.certificate.samples;
  }
  sum.digest = xxh3_64(as_bytes(bytes.bytes()));
  return sum;
}

std::optional<std::int64_t> after_end(const DeliveredEpoch& epoch) {
  for (const auto& [number, certificate] : epoch.micro_batches) {
    if (is_after_end(epoch, number)) {
      return number;
    }
  }
  return std::nullopt;
}

GlobalBatches global_batches(const DeliveredEpoch& epoch, std::int64_t size, std::int64_t first) {
  if (const auto number = after_end(epoch)) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("micro batch {} of epoch {} was delivered after its logical shard had ended "
                    "the epoch: these records belong to different jobs",
                    *number, epoch.epoch));
  }
  GlobalBatches batches{.epoch = epoch.epoch};
  const std::int64_t last = last_micro_batch(epoch);
  std::vector<Certificate> parts;  // of the global batch
  auto next = epoch.micro_batches.begin();
  for (std::int64_t number = first; number <= last && batches.missing.size() < kMostNamed;
       ++number) {
    if (next != epoch.micro_batches.end() && next->first == number) {
      parts.push_back(next->second);
      ++next;
    } else if (!is_after_end(epoch, number)) {
      batches.missing.push_back(number);
    }
    const std::int64_t end = (number / size + 1) * size;
    if (!batches.missing.empty() || (number != last && number + 1 != end)) {
      continue;
    }
    if (has_more(epoch, number + 1, end)) {
      batches.left_out = number / size;
    } else {
      batches.whole.push_back(
          {number / size, std::ssize(parts), certificate_of_global_batch(parts)});
    }
    parts.clear();
  }
  batches.missing_count = batches.missing.empty() ? 0 : count_missing(epoch, first);
  return batches;
}

void check_none_missing(const GlobalBatches& batches) {
  if (!batches.missing.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("{} micro batches of epoch {} are missing: {}", batches.missing_count,
                            batches.epoch, list_first(batches.missing, batches.missing_count)));
  }
}

void check_ended(const DeliveredEpoch& epoch) {
  const std::int64_t count = epoch.logical_shards - std::ssize(epoch.ended);
  if (count == 0) {
    return;
  }
  std::vector<std::int64_t> open;  // the first ones
  for (std::int64_t shard = 0; shard < epoch.logical_shards && open.size() < kMostNamed; ++shard) {
    if (!epoch.ended.contains(shard)) {
      open.push_back(shard);
    }
  }
  throw Error(ErrorCode::kMismatch,
              fmt::format("the end of epoch {} is missing, of {} logical shards: {}", epoch.epoch,
                          count, list_first(open, count)));
}

}  // namespace energon
