//! Whatever is asked, the answer is a whole graph or a rule that exists.

use super::*;
use crate::{conv, fusion::RULES};

/// Numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Nearly always the first.
    fn rarely<T>(&mut self, usual: T, otherwise: T) -> T {
        if self.below(40) == 0 { otherwise } else { usual }
    }

    fn integer(&mut self) -> i64 {
        self.one_of(&[i64::MIN, -1, 0, 1, 2, 3, 4, 8, 1 << 31, 1 << 62, i64::MAX])
    }

    fn scalar(&mut self) -> f64 {
        self.one_of(&[f64::NAN, f64::NEG_INFINITY, -1e300, -1.0, -0.0, 0.0, 1e-300, 0.1, 0.5, 1.0, 3.0, 1e300])
    }

    fn scaling(&mut self) -> Scaling {
        let [alpha, beta] = [self.scalar(), self.scalar()];
        Scaling { alpha: self.rarely(1.0, alpha), beta: self.rarely(0.0, beta) }
    }

    /// A tensor as it should be, or one that nothing is true of.
    fn tensor(&mut self, data_type: DataType, dims: &[i64]) -> TensorDescriptor {
        let mut tensor = packed(self.rarely_type(data_type), dims);
        if self.below(60) == 0 {
            tensor.dims = (0..self.below(6)).map(|_| self.integer()).collect();
        }
        if self.below(60) == 0 {
            tensor.strides = (0..self.below(6)).map(|_| self.integer()).collect();
        }
        tensor.vector_length = self.rarely(1, 4);
        tensor
    }

    fn rarely_type(&mut self, usual: DataType) -> DataType {
        let other = self.one_of(&[DataType::Half, DataType::Double, DataType::Int8, DataType::Int8x4, DataType::Unrecognized]);
        self.rarely(usual, other)
    }

    fn list(&mut self, usual: i64) -> Vec<i64> {
        if self.below(40) == 0 { (0..self.below(4)).map(|_| self.integer()).collect() } else { vec![usual; 2] }
    }

    fn operation(&mut self, data_type: DataType, first: bool) -> Operation {
        match self.below(40) {
            0 => Operation::Other("miopenCreateOpSomething".into()),
            kind if first && kind < 25 || kind == 1 => self.convolution(data_type),
            2..9 => {
                let other = self.scalar();
                Operation::Addition(Addition { tensor: self.tensor(data_type, &[2, 4, 8, 8]), factor: self.rarely(1.0, other) })
            }
            9..16 => Operation::Bias(Bias { tensor: self.tensor(data_type, &[1, 4, 1, 1]), scaling: self.scaling() }),
            16..24 => {
                let (mode, dims) = self.one_of(&[
                    (NormalizationMode::Spatial, [1, 4, 1, 1]),
                    (NormalizationMode::PerActivation, [1, 4, 8, 8]),
                    (NormalizationMode::Unrecognized, [1, 4, 1, 1]),
                ]);
                let epsilon = self.one_of(&[0.0, 1e-5, 1e-300, -1.0, f64::NAN]);
                let parameters = self.tensor(DataType::Float, &dims);
                Operation::Normalization(Normalization { mode, parameters, epsilon, scaling: self.scaling() })
            }
            _ => self.activation(),
        }
    }

    fn activation(&mut self) -> Operation {
        use ActivationMode::*;
        let modes =
            [PassThrough, Logistic, Tanh, Relu, SoftRelu, Absolute, Power, ClippedRelu, LeakyRelu, Elu, Clamp, Unrecognized, Relu, Relu];
        let [alpha, beta, gamma] = [self.scalar(), self.scalar(), self.scalar()];
        Operation::Activation(Activation { mode: self.one_of(&modes), alpha, beta, gamma, scaling: self.scaling() })
    }

    fn convolution(&mut self, data_type: DataType) -> Operation {
        let groups = self.integer();
        Operation::Convolution(Convolution {
            mode: self.one_of(&[Mode::Convolution, Mode::GroupConv, Mode::Transpose, Mode::Convolution, Mode::Unrecognized]),
            w: self.tensor(data_type, &[4, 4, 3, 3]),
            pads: self.list(1),
            strides: self.list(1),
            dilations: self.list(1),
            output_pads: self.list(0),
            group_count: self.rarely(1, groups),
            attributes: vec![],
            algorithm: None,
            scaling: self.scaling(),
        })
    }

    fn problem(&mut self) -> Problem {
        let data_type = self.one_of(&FLOATS);
        let length = self.one_of(&[0, 1, 1, 2, 2, 3, 3, 4, 5, 8, 16, 17, 40]);
        Problem {
            input: self.tensor(data_type, &[2, 4, 8, 8]),
            operations: (0..length).map(|place| self.operation(data_type, place == 0)).collect(),
            output: self.tensor(data_type, &[2, 4, 8, 8]),
        }
    }
}

/// Miri takes a thousand times as long.
const PROBLEMS: usize = if cfg!(miri) { 100 } else { 100_000 };

#[test]
fn every_problem_is_answered() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut graphs, mut rules) = (0, BTreeSet::new());
    for _ in 0..PROBLEMS {
        let problem = numbers.problem();
        match translate(&problem, &capabilities()) {
            Ok(graph) => {
                check(&problem, &graph);
                graphs += 1;
            }
            Err(decline) => drop(rules.insert(decline.rule)),
        }
    }
    assert!(graphs > PROBLEMS / 10, "{graphs} graphs");
    let known = |rule: &String| RULES.iter().any(|r| r.id == rule) || conv::RULES.iter().any(|r| r.id == rule);
    assert!(rules.iter().all(known) && (cfg!(miri) || rules.len() > 25), "{rules:?}");
}
