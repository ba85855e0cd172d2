// Reads samples and makes a page of them: `energon preview --html`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace energon::cli {

struct PreviewPageOptions {
  std::string path;
  std::string split = "train";
  std::optional<std::string> cache_dir = std::nullopt;
  std::optional<std::string> key = std::nullopt;    ///< only the samples with this key
  std::optional<std::string> start = std::nullopt;  ///< a key or a position; absent: the beginning
  std::int64_t limit = 24;  ///< samples of the page; several datasets share them evenly
  /// A mode of images in which they are decoded, too.
  std::optional<std::string> decode = std::nullopt;
  std::string pack_by = {};      ///< a part; empty: no packs
  std::int64_t pack_length = 0;  ///< characters of a text, or bytes
};

struct PreviewPage {
  std::string html;
  std::int64_t samples = 0;   ///< shown, those with failures included
  std::int64_t failures = 0;  ///< samples with a part that cannot be decoded, or unreadable
};

/// What cannot be read or decoded becomes a card that says why. Throws Error: kInvalidArgument for
/// an unknown mode, kCancelled if a signal arrives, kNotFound if no sample has the key,
/// kUnsupported if only a join has it, or what the metadataset leaves out; else as open_data().
PreviewPage preview_page(const PreviewPageOptions& options);

}  // namespace energon::cli
