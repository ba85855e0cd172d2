// Images, sound and video as HTML: thumbnails and players.

#pragma once

#include <string>
#include <string_view>

#include "cli/preview/html_page.h"
#include "io/bytes.h"

namespace energon::cli {

/// What a part shows: a line of facts, then the content. Both are HTML.
struct MediaHtml {
  std::string facts;
  std::string content;
};

/// A thumbnail of the image that is called `name`; a click shows the original bytes. Both appear as
/// training gets the image, with a note if viewers turn it. Throws Error as the decoders of images.
MediaHtml image_html(std::string_view name, ByteView encoded, PageBudget& budget);

/// A player, with one frame of a video. `suffix` ("mp3") tells formats of sound without a
/// signature. Throws Error as AvDecoder; what is damaged beside the header and that frame is not
/// seen.
MediaHtml av_html(std::string_view suffix, const SharedBytes& file, PageBudget& budget);

}  // namespace energon::cli
