// Images, sound and video as HTML: thumbnails and players.

#pragma once

#include <string>
#include <string_view>

#include "cli/preview/html_page.h"
#include "io/bytes.h"

namespace energon::cli {

/// The view of a part: a line of facts, then the content. Both are HTML.
struct MediaHtml {
  std::string facts;
  std::string content;
};

/// A thumbnail of the image named `name`; a click shows the original. Both appear as in training,
/// with a note if viewers rotate or mirror the image. Throws Error as the decoders of images.
MediaHtml image_html(std::string_view name, ByteView encoded, PageBudget& budget);

/// A player, with one frame of a video. `suffix` ("mp3") identifies sound formats without a
/// signature. Throws Error as AvDecoder. Notices damage only in the header and that frame.
MediaHtml av_html(std::string_view suffix, const SharedBytes& file, PageBudget& budget);

}  // namespace energon::cli
