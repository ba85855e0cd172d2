#include "energon/checkpoint/certificate.h"

#include <algorithm>
#include <vector>

#include "energon/state/byte_codec.h"
#include "io/hash.h"

namespace energon {

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

}  // namespace energon
