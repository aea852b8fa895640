//! How fast convolutions are: to be read, not to fail. `cargo test --release -p reference-miopen -- --ignored --nocapture speed`

use miopen_api::data_type;

use super::case::{Case, DIRECTIONS, Direction, Layout, PLAIN, channels_last, packed};

const WAYS: [(&str, i32, Layout); 2] =
    [("fp32 NCHW", data_type::FLOAT, packed as Layout), ("bf16 NHWC", data_type::BFLOAT16, channels_last as Layout)];

/// Multiplications and additions.
fn size(case: &Case) -> f64 {
    let y: i64 = case.y().iter().map(|d| i64::from(*d)).product();
    (y * case.w[1..].iter().map(|d| i64::from(*d)).product::<i64>()) as f64
}

/// Seconds that this thread computed: other programs on the machine do not count.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the place is writable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of the fastest of a few calls.
fn seconds(case: &Case, direction: Direction, calls: usize) -> f64 {
    let mut tensors = case.tensors();
    let times = (0..calls).map(|_| {
        let start = now();
        assert_eq!(case.call(&mut tensors, direction), 0);
        now() - start
    });
    times.fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "prints figures"]
fn speed_of_single_convolutions() {
    let three = Case { x: &[1, 64, 56, 56], w: &[64, 64, 3, 3], ..PLAIN };
    let one = Case { x: &[1, 256, 56, 56], w: &[64, 256, 1, 1], pads: &[0, 0], ..PLAIN };
    let depthwise = Case { x: &[1, 256, 56, 56], w: &[256, 1, 3, 3], groups: 256, ..PLAIN };
    let cases = [
        ("3x3 64->64 56x56", three.clone()),
        ("1x1 256->64 56x56", one.clone()),
        ("depthwise 3x3 256 56x56", depthwise),
        ("7x7/2 3->64 224x224", Case { x: &[1, 3, 224, 224], w: &[64, 3, 7, 7], pads: &[3, 3], strides: &[2, 2], ..PLAIN }),
        ("3x3 512->512 7x7", Case { x: &[1, 512, 7, 7], w: &[512, 512, 3, 3], ..PLAIN }),
        ("3x3 32 groups of 4, 56x56", Case { x: &[1, 128, 56, 56], w: &[128, 4, 3, 3], groups: 32, ..PLAIN }),
        ("1x1 2048->1000 1x1, batch 64", Case { x: &[64, 2048, 1, 1], w: &[1000, 2048, 1, 1], ..one }),
        (
            "3x3x3 16->32 16x32x32",
            Case { x: &[1, 16, 16, 32, 32], w: &[32, 16, 3, 3, 3], pads: &[1; 3], strides: &[1; 3], dilations: &[1; 3], ..three },
        ),
    ];
    for (name, case) in cases {
        for (way, kind, layout) in WAYS {
            let speeds = DIRECTIONS.map(|direction| {
                let case = Case { kind, layout, ..case.clone() };
                format!("{:6.2}", size(&case) / seconds(&case, direction, 5) / 1e9)
            });
            println!("{name:30} {way}: GMAC/s forward, data, weights {}", speeds.join(" "));
        }
    }
}

/// The 53 convolutions of ResNet-50: in, out, kernel, stride, input size, how often.
const RESNET: [(i32, i32, i32, i32, i32, usize); 23] = [
    (3, 64, 7, 2, 224, 1),
    (64, 64, 1, 1, 56, 1),
    (64, 64, 3, 1, 56, 3),
    (64, 256, 1, 1, 56, 4),
    (256, 64, 1, 1, 56, 2),
    (256, 128, 1, 1, 56, 1),
    (128, 128, 3, 2, 56, 1),
    (128, 512, 1, 1, 28, 4),
    (256, 512, 1, 2, 56, 1),
    (512, 128, 1, 1, 28, 3),
    (128, 128, 3, 1, 28, 3),
    (512, 256, 1, 1, 28, 1),
    (256, 256, 3, 2, 28, 1),
    (256, 1024, 1, 1, 14, 6),
    (512, 1024, 1, 2, 28, 1),
    (1024, 256, 1, 1, 14, 5),
    (256, 256, 3, 1, 14, 5),
    (1024, 512, 1, 1, 14, 1),
    (512, 512, 3, 2, 14, 1),
    (512, 2048, 1, 1, 7, 3),
    (1024, 2048, 1, 2, 14, 1),
    (2048, 512, 1, 1, 7, 2),
    (512, 512, 3, 1, 7, 2),
];

#[test]
#[ignore = "prints figures"]
fn speed_of_resnet_50() {
    assert_eq!(RESNET.iter().map(|layer| layer.5).sum::<usize>(), 53);
    for (way, kind, layout) in WAYS {
        for direction in DIRECTIONS {
            let (mut total, mut work) = (0.0, 0.0);
            for (input, output, kernel, stride, image, count) in RESNET {
                let (x, w, pads) = ([1, input, image, image], [output, input, kernel, kernel], [kernel / 2; 2]);
                let case = Case { kind, layout, x: &x, w: &w, pads: &pads, strides: &[stride; 2], ..PLAIN };
                total += seconds(&case, direction, 1) * count as f64;
                work += size(&case) * count as f64;
            }
            println!("ResNet-50, batch 1, {way}, {direction:?}: {total:.2} s, {:.2} GMAC", work / 1e9);
        }
    }
}
