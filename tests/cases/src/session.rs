//! MIOpen's objects for a problem: handles with their streams, descriptors of tensors and convolutions.

use anyhow::Result;
use miopen_api::convolution_mode;

use crate::{
    edge::{Call, Direction, Libraries, Memory, MiOpen, Owned, Stream},
    problem::{Problem, Tensor},
};

/// A handle. On the null stream, or on one that it is told.
pub struct Session {
    /// The libraries.
    pub libraries: &'static Libraries,
    /// MIOpen's handle.
    pub handle: Owned,
}

impl Session {
    /// On the null stream.
    pub fn new(libraries: &'static Libraries) -> Result<Self> {
        Ok(Self { libraries, handle: libraries.miopen.handle()? })
    }

    /// On a stream, which must outlive what is queued.
    pub fn on(libraries: &'static Libraries, stream: &Stream) -> Result<Self> {
        Ok(Self { libraries, handle: libraries.miopen.handle_on(stream)? })
    }

    /// MIOpen.
    pub fn miopen(&self) -> &'static MiOpen {
        &self.libraries.miopen
    }

    /// Descriptors of a problem.
    pub fn describe(&self, problem: &Problem) -> Result<Descriptors> {
        Descriptors::new(&self.libraries.miopen, problem)
    }
}

/// A descriptor of a tensor. What does not fit the setter of C integers is set with the wide one.
pub fn describe_tensor(miopen: &MiOpen, tensor: &Tensor) -> Result<Owned> {
    let descriptor = miopen.tensor()?;
    let fits = tensor.dims.iter().chain(&tensor.strides).all(|value| i32::try_from(*value).is_ok());
    let (number, dims, strides) = (tensor.kind.number(), tensor.dims.as_slice(), Some(tensor.strides.as_slice()));
    if fits {
        miopen.set_tensor(&descriptor, number, dims, strides).check("miopenSetTensorDescriptor")?;
    } else {
        miopen.set_tensor_v2(&descriptor, number, dims, strides).check("miopenSetTensorDescriptorV2")?;
    }
    Ok(descriptor)
}

/// Descriptors of x, w and y, and of the convolution.
pub struct Descriptors {
    /// x, w, y.
    pub tensors: [Owned; 3],
    /// The convolution.
    pub convolution: Owned,
}

impl Descriptors {
    fn new(miopen: &MiOpen, problem: &Problem) -> Result<Self> {
        let [x, w, y] = problem.tensors().map(|tensor| describe_tensor(miopen, tensor));
        let convolution = miopen.convolution()?;
        let mode = if problem.transposed { convolution_mode::TRANSPOSE } else { convolution_mode::CONVOLUTION };
        let lists = [problem.pads.as_slice(), &problem.strides, &problem.dilations];
        miopen.init_convolution(&convolution, lists, mode).check("miopenInitConvolutionNdDescriptor")?;
        miopen.set_groups(&convolution, problem.groups as i32).check("miopenSetConvolutionGroupCount")?;
        if problem.transposed {
            miopen.set_output_padding(&convolution, &problem.output_pads).check("miopenSetTransposeConvNdOutputPadding")?;
        }
        Ok(Self { tensors: [x?, w?, y?], convolution })
    }

    /// The calls of a direction, with memory of x, w and y.
    pub fn call<'a>(&'a self, session: &'a Session, direction: Direction, memory: [Option<(&'a Memory, usize)>; 3]) -> Call<'a> {
        let [x, w, y] = &self.tensors;
        session.libraries.miopen.call(direction, &session.handle, &self.convolution, [x, w, y], memory)
    }
}
