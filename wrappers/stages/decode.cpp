#include "wrappers/stages/decode.h"

#include <utility>

namespace energon {

MapFunction decode_then(SampleDecoderOptions options, MapFunction next) {
  return [decoder = SampleDecoder(std::move(options)), next = std::move(next)](
             Sample sample, CallContext& context) {
    decoder.decode(sample, context.memory());
    return next ? next(std::move(sample), context) : sample;
  };
}

}  // namespace energon
