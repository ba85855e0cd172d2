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
  std::optional<std::string> start = std::nullopt;  ///< a key or a position, by default 0
  std::int64_t limit = 24;  ///< samples of the page; several datasets share them evenly
  /// Image mode in which images are also decoded.
  std::optional<std::string> decode = std::nullopt;
  std::string pack_by = {};      ///< a part; no packs if empty
  std::int64_t pack_length = 0;  ///< characters of a text, or bytes
};

struct PreviewPage {
  std::string html;
  std::int64_t samples = 0;   ///< shown, those with failures included
  std::int64_t failures = 0;  ///< samples with a part that cannot be decoded, or unreadable
};

/// Samples that cannot be read or decoded become a card with the reason. Throws Error:
/// kInvalidArgument for an unknown mode, kCancelled if a signal arrives, kNotFound if no sample has
/// the key, kUnsupported if only a join, or samples that the metadataset leaves out, have it;
/// otherwise as open_data().
PreviewPage preview_page(const PreviewPageOptions& options);

}  // namespace energon::cli
