#include "energon/worker/report_transport.h"

#include <optional>
#include <utility>

#include "energon/state/byte_codec.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kMessageBytes = std::size_t{256} << 10;
constexpr std::size_t kLongestText = std::size_t{64} << 10;
constexpr std::int64_t kUnknownIndex = -1;  // in a message

void write_text(ByteWriter& writer, std::string_view text) {
  writer.text(text.substr(0, kLongestText));
}

std::string encode_sample(const FailedSample& sample) {
  ByteWriter writer;
  write_text(writer, sample.key);
  write_text(writer, sample.dataset_path);
  write_text(writer, sample.shard_name);
  writer.i64(sample.index_in_shard.value_or(kUnknownIndex));
  writer.u64(sample.bytes.offset);
  writer.u64(sample.bytes.size);
  return writer.take();
}

std::string_view bounded(std::string_view detail) {
  return detail.size() <= kMaxErrorDetailBytes ? detail : std::string_view();
}

void append_report(std::string& message, const FailureReport& report, std::string_view detail,
                   std::uint32_t sample_count, std::string_view samples) {
  ByteWriter writer;
  write_text(writer, report.stage);
  writer.u8(static_cast<std::uint8_t>(report.code));
  write_text(writer, report.cause);
  writer.u8(report.is_shard_broken ? 1 : 0);
  writer.i64(report.consecutive);
  writer.text(detail);
  writer.u32(sample_count);
  message += writer.bytes();
  message += samples;
}

ErrorCode read_code(ByteReader& reader) {
  const std::optional<ErrorCode> code = error_code(reader.u8());
  if (!code) {
    reader.fail("unknown error code");
  }
  return *code;
}

FailedSample read_sample(ByteReader& reader) {
  FailedSample sample;
  sample.key = reader.text();
  sample.dataset_path = reader.text();
  sample.shard_name = reader.text();
  if (const std::int64_t index = reader.i64(); index >= 0) {
    sample.index_in_shard = index;
  }
  sample.bytes.offset = reader.u64();
  sample.bytes.size = reader.u64();
  return sample;
}

}  // namespace

std::vector<std::string> encode_reports(std::span<const FailureReport> reports) {
  std::vector<std::string> messages;
  std::string message;
  for (const FailureReport& report : reports) {
    std::string samples;
    std::uint32_t count = 0;
    std::string_view detail = bounded(report.detail);
    const auto finish_part = [&] {
      append_report(message, report, std::exchange(detail, {}), std::exchange(count, 0),
                    std::exchange(samples, {}));
      if (message.size() >= kMessageBytes) {
        messages.push_back(std::exchange(message, {}));
      }
    };
    for (const FailedSample& sample : report.samples) {
      if (count > 0 && message.size() + samples.size() >= kMessageBytes) {
        finish_part();
      }
      samples += encode_sample(sample);
      ++count;
    }
    finish_part();
  }
  if (!message.empty()) {
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<FailureReport> decode_reports(std::string_view message) {
  constexpr std::size_t kSampleBytes = 3 * 4 + 3 * 8;  // with empty texts
  ByteReader reader(message, "failure reports from a worker");
  std::vector<FailureReport> reports;
  while (reader.left() > 0) {
    FailureReport report;
    report.stage = reader.text();
    report.code = read_code(reader);
    report.cause = reader.text();
    report.is_shard_broken = reader.u8() != 0;
    report.consecutive = reader.i64();
    report.detail = reader.text();
    report.samples.resize(reader.count(kSampleBytes));
    for (FailedSample& sample : report.samples) {
      sample = read_sample(reader);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace energon
