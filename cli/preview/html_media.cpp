#include "cli/preview/html_media.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "cli/decoded_file.h"
#include "cli/output.h"
#include "cli/preview/html_text.h"
#include "energon/sample/buffer_allocator.h"
#include "media/av/av_decoder.h"
#include "media/image/image_decoder.h"
#include "media/transform/resize.h"

namespace energon::cli {

// --- Small pictures: of images, and of frames of video ---

namespace {

/// The longest side, in pixels.
constexpr std::int64_t kThumbnailSide = 320;

struct Thumbnail {
  std::string png;  ///< the file
  std::int64_t width = 0;
  std::int64_t height = 0;
};

struct SidesOfThumbnail {
  std::int64_t width;
  std::int64_t height;
};

// Never larger than the image, and at least one pixel.
SidesOfThumbnail sides_of_thumbnail(std::int64_t width, std::int64_t height) {
  const double factor = std::min(
      1.0, static_cast<double>(kThumbnailSide) / static_cast<double>(std::max(width, height)));
  const auto scaled = [factor](std::int64_t side) {
    return std::clamp(std::int64_t{std::lround(static_cast<double>(side) * factor)},
                      std::int64_t{1}, kThumbnailSide);
  };
  return {scaled(width), scaled(height)};
}

/// The image in `encoded` as decoders return it by default, at most kThumbnailSide on each side:
/// only a TIFF is rotated by its orientation. The whole image is decoded. `info` describes
/// `encoded`. Throws Error as decode_region().
Thumbnail thumbnail_of_image(ByteView encoded, const ImageInfo& info) {
  const ImageSize full = decoded_size(info, false);
  const auto [width, height] = sides_of_thumbnail(full.width, full.height);
  const DecodedRegion region = decode_region(encoded,
                                             {.crop = {.width = full.width, .height = full.height},
                                              .least_width = width,
                                              .least_height = height},
                                             ImageChannels::kAsStored, false, {}, heap_memory());
  const auto bytes_of = [&region](std::int64_t w, std::int64_t h) {
    return static_cast<std::size_t>(w * h * region.channels);
  };
  const ImageView view =
      image_view(region.pixels.bytes.first(bytes_of(region.width, region.height)), region.width,
                 region.height, region.channels);
  std::vector<std::byte> pixels(bytes_of(width, height));
  Resizer().resize(view, region.box, width, height, {}, pixels);
  return {png_of_pixels(pixels, width, height, region.channels), width, height};
}

/// The frame in the middle of the video in `file` (the first often is black), resized to a
/// thumbnail with the proportions of the coded frame. Throws Error like AvDecoder.
Thumbnail thumbnail_of_video(const SharedBytes& file) {
  AvDecoder decoder(file);
  const AvMetadata metadata = decoder.metadata();
  const auto [width, height] =
      sides_of_thumbnail(metadata.width.value_or(kThumbnailSide), metadata.height.value_or(180));
  const double middle = metadata.video_duration_seconds.value_or(0) / 2;
  const VideoClip clip = decoder.video_frames_at(
      {&middle, 1}, FrameSize{static_cast<int>(width), static_cast<int>(height)}, heap_memory());
  const ByteView planes = clip.frames.data.view;
  const auto plane = static_cast<std::size_t>(width * height);
  std::vector<std::byte> pixels(plane * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = planes[i % 3 * plane + i / 3];
  }
  return {png_of_pixels(pixels, width, height, 3), width, height};
}

}  // namespace

// --- Parts ---

namespace {

/// Larger originals are not embedded in the page.
constexpr std::uint64_t kLargestOriginalImage = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargestOriginalAv = std::uint64_t{8} << 20;

// Empty if browsers do not show the format.
std::string_view mime_of_image(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "image/jpeg";
    case ImageFormat::kPng:
      return "image/png";
    case ImageFormat::kWebp:
      return "image/webp";
    case ImageFormat::kGif:
      return "image/gif";
    case ImageFormat::kTiff:
      return "";
  }
  return "";
}

std::string facts_of_image(const ImageInfo& info) {
  constexpr std::string_view kChannels[] = {"gray", "gray and alpha", "RGB", "RGB and alpha"};
  const ImageSize size = decoded_size(info, false);
  std::string facts = fmt::format("{}, {} × {}, {}", to_string(info.format), size.width,
                                  size.height, kChannels[info.channels - 1]);
  if (info.bits != 8) {
    facts += fmt::format(", {} bits", info.bits);
  }
  if (info.orientation != 1) {
    facts += fmt::format(", orientation {} {}", info.orientation,
                         applied_orientation(info, false) == 1 ? "not applied" : "applied");
  }
  if (info.frames > 1) {
    facts += fmt::format(", {} images, the first is shown", info.frames);
  }
  return facts;
}

// Returns an empty string for formats that browsers do not play.
std::string_view mime_of_av(std::string_view suffix, std::string_view file, bool has_video) {
  const std::string_view form = file.substr(0, 4);
  if (file.substr(std::min<std::size_t>(4, file.size()), 4) == "ftyp") {
    return has_video ? "video/mp4" : "audio/mp4";
  }
  if (form == "\x1A\x45\xDF\xA3") {
    return has_video ? "video/webm" : "audio/webm";
  }
  if (form == "OggS") {
    return has_video ? "video/ogg" : "audio/ogg";
  }
  if (form == "RIFF" && !has_video) {
    return "audio/wav";
  }
  if (form == "fLaC") {
    return "audio/flac";
  }
  if (form.starts_with("ID3") || suffix == "mp3") {
    return "audio/mpeg";
  }
  return suffix == "aac" ? "audio/aac" : "";
}

std::string facts_of_av(const AvMetadata& metadata) {
  std::string facts;
  const auto add = [&facts](const std::string& fact) {
    facts += (facts.empty() ? "" : ", ") + fact;
  };
  if (metadata.width && metadata.height) {
    add(fmt::format("video {} × {}", *metadata.width, *metadata.height));
  }
  if (metadata.video_fps) {
    add(fmt::format("{:.4g} frames/s", *metadata.video_fps));
  }
  if (metadata.audio_sample_rate) {
    add(fmt::format("sound {} Hz", *metadata.audio_sample_rate));
  }
  if (metadata.audio_channels) {
    add(plural(*metadata.audio_channels, "channel"));
  }
  const auto seconds = metadata.video_duration_seconds ? metadata.video_duration_seconds
                                                       : metadata.audio_duration_seconds;
  if (seconds) {
    add(fmt::format("{:.2f} s", *seconds));
  }
  return facts;
}

std::string img_html(const Thumbnail& thumbnail, std::string_view name) {
  return fmt::format(R"(<img src="{}" width="{}" height="{}" alt="{}">)",
                     data_uri("image/png", as_bytes(thumbnail.png)), thumbnail.width,
                     thumbnail.height, html_text(name));
}

std::string note_html(const std::string& text) {
  return fmt::format("<p class=\"note\">{}</p>", text);
}

// Explains how image viewers show the image differently from the page, which shows it as in
// training. May be empty.
std::string orientation_note(const ImageInfo& info) {
  constexpr std::string_view kTurns[] = {
      "mirror it left to right",        "turn it by 180°",
      "mirror it top to bottom",        "mirror it and turn it on its side",
      "turn it by 90° clockwise",       "mirror it and turn it on its side",
      "turn it by 90° counterclockwise"};
  if (info.orientation == applied_orientation(info, false)) {
    return "";
  }
  return note_html(
      fmt::format("Shown as in training: EXIF orientation {} is not applied. Viewers {}.",
                  info.orientation, kTurns[info.orientation - 2]));
}

}  // namespace

MediaHtml image_html(std::string_view name, ByteView encoded, PageBudget& budget) {
  const ImageInfo info = probe_image(encoded);
  const Thumbnail thumbnail = thumbnail_of_image(encoded, info);
  MediaHtml html{.facts = facts_of_image(info), .content = {}};
  if (!budget.take(thumbnail.png.size())) {
    html.content = kPageIsFull;
    return html;
  }
  const std::string_view mime = mime_of_image(info.format);
  if (mime.empty() || encoded.size() > kLargestOriginalImage || !budget.take(encoded.size())) {
    html.content = img_html(thumbnail, name) + orientation_note(info) +
                   note_html(mime.empty() ? "Browsers do not show the original."
                                          : "The original is not in this page.");
    return html;
  }
  html.content = fmt::format(
      R"(<button class="zoom" type="button" data-original="{}" title="Show the original">{}</button>{})",
      data_uri(mime, encoded), img_html(thumbnail, name), orientation_note(info));
  return html;
}

MediaHtml av_html(std::string_view suffix, const SharedBytes& file, PageBudget& budget) {
  const AvMetadata metadata = read_av_metadata(file.view);
  const bool has_video = metadata.width.has_value();
  MediaHtml html{.facts = facts_of_av(metadata), .content = {}};
  std::optional<Thumbnail> poster;
  if (has_video) {
    poster = thumbnail_of_video(file);
    if (!budget.take(poster->png.size())) {
      html.content = kPageIsFull;
      return html;
    }
  }
  const std::string_view mime = mime_of_av(suffix, file.text(), has_video);
  const bool is_large = file.size() > kLargestOriginalAv;
  if (mime.empty() || is_large || !budget.take(file.size())) {
    html.content = (poster ? img_html(*poster, "the frame in the middle") : "") +
                   note_html(mime.empty() ? "Browsers do not play this format."
                             : is_large   ? fmt::format("{} are too large for this page.",
                                                        human_bytes(file.size()))
                                          : std::string("Not playable here: the page is full."));
    return html;
  }
  const std::string source = data_uri(mime, file.view);
  html.content =
      poster ? fmt::format(
                   R"(<video controls preload="metadata" width="{}" poster="{}" src="{}"></video>)",
                   kThumbnailSide, data_uri("image/png", as_bytes(poster->png)), source)
             : fmt::format(R"(<audio controls preload="metadata" src="{}"></audio>)", source);
  return html;
}

}  // namespace energon::cli
