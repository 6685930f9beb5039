//! Small pictures of large ones. Whoever uploads a picture may be hostile: what a decoder cannot do within its bounds is
//! a file like any other, never a failure.

use std::io::Cursor;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::blobs::{BlobError, Blobs, ObjectKey};
use crate::domain::{Dimensions, MediaType};

/// The longer side of a small picture, in pixels.
const SMALL_PIXELS: u32 = 320;
/// What of 100 its quality is.
const SMALL_QUALITY: u8 = 80;
/// The largest file that is looked at, in bytes.
const SOURCE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Each takes memory and a thread.
const AT_ONCE: usize = 2;
/// Whoever waits longer for a turn goes without.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// What a decoder may take, in bytes a pixel: colours and their opacity.
const BYTES_A_PIXEL: u64 = 4;

/// What is seen of a picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Picture {
    /// As it is shown: turned upright.
    pub(super) dimensions: Dimensions,
    /// The small one, a PNG or a JPEG; none where it takes too much to make it.
    pub(super) small: Option<Vec<u8>>,
}

/// Makes them, a few at a time.
pub(super) struct Pictures {
    turns: Semaphore,
    pixels_max: u64,
}

impl Pictures {
    /// Of pictures of so many pixels; 0 = of none.
    pub(super) fn new(pixels_max: u64) -> Self {
        Self {
            turns: Semaphore::new(AT_ONCE),
            pixels_max,
        }
    }

    /// Looks at an object of this type; `None` where there is no picture to be seen.
    pub(super) async fn look(
        &self,
        blobs: &Blobs,
        key: &ObjectKey,
        size_bytes: u64,
        media_type: &MediaType,
    ) -> Option<Picture> {
        let format = format(media_type)?;
        if self.pixels_max == 0 || size_bytes > SOURCE_BYTES_MAX {
            return None;
        }
        let Ok(Ok(_turn)) = timeout(TURN_TIMEOUT, self.turns.acquire()).await else {
            tracing::info!(%key, "no small picture is made: too many wait for one");
            return None;
        };
        let source = match whole(blobs, key, size_bytes).await {
            Ok(source) => source,
            Err(error) => {
                tracing::warn!(%error, %key, "no small picture is made: its source cannot be read");
                return None;
            }
        };
        let pixels_max = self.pixels_max;
        // A panic of a decoder ends here.
        spawn_blocking(move || seen(&source, format, pixels_max)).await.ok()?
    }
}

/// The formats that are looked at.
fn format(media_type: &MediaType) -> Option<ImageFormat> {
    match media_type.as_str() {
        "image/png" => Some(ImageFormat::Png),
        "image/jpeg" | "image/jpg" | "image/pjpeg" => Some(ImageFormat::Jpeg),
        "image/gif" => Some(ImageFormat::Gif),
        "image/webp" => Some(ImageFormat::WebP),
        _ => None,
    }
}

async fn whole(blobs: &Blobs, key: &ObjectKey, size_bytes: u64) -> Result<Vec<u8>, BlobError> {
    let chunks = blobs.read(key, 0..size_bytes).await?;
    let whole = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or_default());
    let add = |mut whole: Vec<u8>, chunk: Bytes| async move {
        whole.extend_from_slice(&chunk);
        Ok(whole)
    };
    chunks.try_fold(whole, add).await
}

/// What a decoder sees in these bytes.
fn seen(source: &[u8], format: ImageFormat, pixels_max: u64) -> Option<Picture> {
    let mut limits = Limits::default();
    limits.max_alloc = Some(pixels_max.saturating_mul(BYTES_A_PIXEL));
    let mut reader = ImageReader::with_format(Cursor::new(source), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let fits = u64::from(width) * u64::from(height) <= pixels_max;
    let small = fits.then(|| DynamicImage::from_decoder(decoder).ok()).flatten();
    Some(Picture {
        dimensions: upright(width, height, orientation),
        small: small.and_then(|picture| shrunk(picture, orientation)),
    })
}

fn upright(width: u32, height: u32, orientation: Orientation) -> Dimensions {
    let lies = matches!(
        orientation,
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH
    );
    let (width, height) = if lies { (height, width) } else { (width, height) };
    Dimensions { width, height }
}

/// Smaller, upright, and without what else its source may tell (where it was taken).
fn shrunk(picture: DynamicImage, orientation: Orientation) -> Option<Vec<u8>> {
    let large = picture.width().max(picture.height()) > SMALL_PIXELS;
    let mut small = if large {
        picture.thumbnail(SMALL_PIXELS, SMALL_PIXELS)
    } else {
        picture
    };
    small.apply_orientation(orientation);
    let mut bytes = Vec::new();
    if small.color().has_alpha() {
        let small = small.into_rgba8();
        small.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).ok()?;
    } else {
        let encoder = JpegEncoder::new_with_quality(&mut bytes, SMALL_QUALITY);
        small.into_rgb8().write_with_encoder(encoder).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, Rgba, RgbaImage};

    use super::*;

    fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    fn colours(width: u32, height: u32) -> DynamicImage {
        let channel = |value: u32| u8::try_from(value % 256).unwrap();
        RgbImage::from_fn(width, height, |x, y| Rgb([channel(x), channel(y), channel(x + y)])).into()
    }

    fn small_of(source: &[u8], format: ImageFormat) -> (Dimensions, (u32, u32), ImageFormat) {
        let picture = seen(source, format, 1_000_000).unwrap();
        let small = picture.small.unwrap();
        let kind = image::guess_format(&small).unwrap();
        let decoded = image::load_from_memory(&small).unwrap();
        (picture.dimensions, (decoded.width(), decoded.height()), kind)
    }

    #[test]
    fn every_format_has_a_small_picture_of_its_proportions() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let source = written(&colours(640, 100), format);
            let (dimensions, small, _) = small_of(&source, format);
            assert_eq!((dimensions.width, dimensions.height), (640, 100), "{format:?}");
            assert_eq!(small, (320, 50), "{format:?}");
        }
        let tiny = written(&colours(3, 2), ImageFormat::Jpeg);
        assert_eq!(small_of(&tiny, ImageFormat::Jpeg).1, (3, 2), "nothing is made larger");
    }

    #[test]
    fn what_can_be_seen_through_stays_so() {
        let glass = RgbaImage::from_pixel(400, 400, Rgba([1, 2, 3, 100])).into();
        let source = written(&glass, ImageFormat::Png);
        assert_eq!(small_of(&source, ImageFormat::Png).2, ImageFormat::Png);
        let source = written(&colours(400, 400), ImageFormat::Png);
        assert_eq!(small_of(&source, ImageFormat::Png).2, ImageFormat::Jpeg);
    }

    /// A JPEG with an EXIF block that says: turned by 90 degrees.
    #[test]
    fn a_picture_that_lies_on_its_side_is_turned_upright() {
        let mut source = written(&colours(64, 32), ImageFormat::Jpeg);
        let exif = b"\xff\xe1\0\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        source.splice(2..2, exif.iter().copied());
        let (dimensions, small, _) = small_of(&source, ImageFormat::Jpeg);
        assert_eq!((dimensions.width, dimensions.height), (32, 64));
        assert_eq!(small, (32, 64));
    }

    #[test]
    fn bombs_and_rubbish_are_files_like_any_other() {
        // A header that promises 65,535 x 65,535 pixels.
        let mut bomb = written(&colours(8, 8), ImageFormat::Gif);
        bomb.splice(6..10, [0xff; 4]);
        let seen_of_it = seen(&bomb, ImageFormat::Gif, 40_000_000).unwrap();
        assert_eq!(seen_of_it.small, None, "{:?}", seen_of_it.dimensions);
        // A good picture over the limit is measured, not made smaller.
        let large = written(&colours(1_200, 900), ImageFormat::Png);
        let measured = seen(&large, ImageFormat::Png, 1_000_000).unwrap();
        assert_eq!((measured.dimensions.width, measured.small), (1_200, None));
        // Pictures that break off, and that only begin like one.
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let whole = written(&colours(16, 16), format);
            for end in (0..whole.len()).step_by(7) {
                seen(&whole[..end], format, 1_000_000);
            }
            for at in (0..whole.len()).step_by(3) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x55;
                seen(&damaged, format, 1_000_000);
            }
            assert_eq!(seen(b"<script>", format, 1_000_000), None);
        }
    }
}
